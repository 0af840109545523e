package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/doctor"
)

// doctorResult is the result of `dlx doctor`.
type doctorResult struct{ doctor.Result }

// doctorFlags are the flags of `dlx doctor`.
type doctorFlags struct {
	devices devices
	timeout time.Duration
	listen  string
	mode    string
	count   int
	serve   bool
	// permissions is mode as a number.
	permissions fs.FileMode
}

func newDoctorCommand(a *app) *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor [PID | SOCKET]",
		Short: "Find out which ways of sharing work between two processes, and why others do not",
		Long: `Try the ways of sharing memory, semaphores and events between two processes one by one, and
say why one does not work: another namespace, a missing capability, a seccomp filter, another
user, another driver. A reason that does not follow from facts alone begins with "probably".

Without an argument, the second process is another dlx on this machine.

With a SOCKET, it is the process that listens there. If that is "dlx doctor --listen SOCKET",
perhaps in another container, all ways between the two containers are tried; they need to
share only the folder of the socket. If it is a program that uses package share, such as dlx
receive, its devices are compared with those of this process, and no tensor is passed; the
program sees a connection that ends.

With a PID, it is any process. It is not changed, and ways that need its help are not tried.

The line "unfinished work" says whether a tensor is sent before the work that writes it is done.

"works" is a way that was tried. "possible" is one that could not be tried and that the system
permits, as far as it shows. The exit code is 1 if no way to share memory of the host without
a copy works or is possible.`,
		Example: `  dlx doctor
  dlx doctor --device cpu,cuda:0
  dlx doctor --listen /shared/doctor.sock    # in one container
  dlx doctor /shared/doctor.sock             # in the other one
  dlx doctor 4711 --json`,
		Args:    cobra.MaximumNArgs(1),
		PreRunE: func(cmd *cobra.Command, args []string) error { return f.check(cmd, args) },
		RunE: a.runE(func(cmd *cobra.Command, args []string) (result, error) {
			return a.doctor(cmd.Context(), args, f)
		}),
	}
	flags := cmd.Flags()
	flags.Var(&f.devices, "device", "try only these devices (default all)")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Second, "how long the other process may take for one answer")
	flags.Var((*filled)(&f.listen), "listen", "wait at this `socket` for another dlx doctor, and answer it")
	flags.StringVar(&f.mode, "mode", "0600", "with --listen: the `permissions` of the socket; 0666 lets other users connect")
	flags.IntVar(&f.count, "count", 0, "with --listen: end after `N` processes; 0 goes on until an interrupt")
	flags.BoolVar(&f.serve, "serve", false, "answer at descriptor 3")
	cobra.CheckErr(flags.MarkHidden("serve")) // for the process that dlx doctor starts
	completeFlag(cmd, "device", a.completeDevices)
	return cmd
}

// check returns an error if the command line is wrong.
func (f *doctorFlags) check(cmd *cobra.Command, args []string) error {
	mode, err := strconv.ParseUint(f.mode, 8, 32)
	switch {
	case err != nil || mode > 0o777:
		return fmt.Errorf("invalid argument %q for --mode: must be permissions such as 0660", f.mode)
	case f.timeout <= 0:
		return fmt.Errorf("invalid argument %v for --timeout: must be more than 0", f.timeout)
	case f.count < 0:
		return fmt.Errorf("invalid argument %d for --count: must be at least 0", f.count)
	case f.listen != "" && len(args) > 0:
		return fmt.Errorf("%q cannot be examined with --listen, which waits for another dlx doctor: leave one of them out", args[0])
	}
	f.permissions = fs.FileMode(mode)
	if f.listen == "" {
		return noEffect(cmd.Flags(), "without --listen", "mode", "count")
	}
	return nil
}

// doctor examines another process.
func (a *app) doctor(ctx context.Context, args []string, f doctorFlags) (_ result, err error) {
	opened, err := a.openForDoctor(ctx, f)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, opened.close()) }()
	o := doctor.Options{Devices: opened.devices, Timeout: f.timeout}
	switch {
	case f.serve:
		return nil, doctor.Serve(ctx, 3, o)
	case f.listen != "":
		return nil, a.listenForDoctor(ctx, f, o)
	}
	r, err := a.examine(ctx, args, f, o)
	if err != nil {
		return nil, err
	}
	return doctorResult{r}, doctorResult{r}.failure()
}

// failure returns an error if no memory of the host can be shared.
func (r doctorResult) failure() error {
	if r.HostShared {
		return nil
	}
	return errors.New("no way to share memory of the host without a copy works; the reasons are in the result")
}

// examine examines the process that the arguments name.
func (a *app) examine(ctx context.Context, args []string, f doctorFlags, o doctor.Options) (doctor.Result, error) {
	if len(args) == 0 {
		if a.executable == "" {
			return doctor.Result{}, core.Errorf(core.ErrNotSupported, "doctor", "Pair", "this program cannot be started again as the second process")
		}
		return doctor.Pair(ctx, func(ctx context.Context) *exec.Cmd {
			list := []string{"doctor", "--serve", "--timeout", f.timeout.String(), "--log-level", "error"}
			if len(f.devices) > 0 {
				list = append(list, "--device", f.devices.String())
			}
			cmd := exec.CommandContext(ctx, a.executable, list...)
			cmd.Stderr = a.stderr
			return cmd
		}, o)
	}
	if pid, err := strconv.Atoi(args[0]); err == nil {
		return doctor.Process(ctx, pid, o)
	}
	return doctor.Dial(ctx, args[0], o)
}

// listenForDoctor answers other processes.
func (a *app) listenForDoctor(ctx context.Context, f doctorFlags, o doctor.Options) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	a.log.Info().Str("socket", f.listen).Msg("waiting for dlx doctor")
	answered := 0
	return doctor.Listen(ctx, f.listen, f.permissions, o, func(who doctor.Credentials, err error) {
		event := a.log.Info()
		if err != nil {
			event = a.log.Warn().Err(validError{err})
		}
		event.Int("pid", who.PID).Int("uid", who.UID).Msg("answered a process")
		if answered++; answered == f.count {
			stop()
		}
	})
}

// openForDoctor opens the devices that are tried: those that are named, or else all that can be
// opened. The caller closes them.
func (a *app) openForDoctor(ctx context.Context, f doctorFlags) (s sharing, err error) {
	ids, all := f.devices, len(f.devices) == 0
	if err := a.checkBuilt(ids...); err != nil {
		return s, err
	}
	if all {
		found, err := a.registry.Devices(ctx)
		if err != nil {
			a.log.Warn().Err(validError{err}).Msg("not all devices could be listed")
		}
		for _, p := range found {
			ids = append(ids, p.ID)
		}
	}
	slices.SortStableFunc(ids, func(x, y core.DeviceID) int { // the host first
		return strings.Compare(strconv.FormatBool(y == core.CPU), strconv.FormatBool(x == core.CPU))
	})
	for _, id := range ids {
		d, err := a.registry.Open(ctx, id)
		if err != nil && all && ctx.Err() == nil {
			a.log.Warn().Err(validError{err}).Msgf("%v is not tried", id)
			continue
		}
		if err != nil {
			return sharing{}, firstError(err, s.close())
		}
		s.devices = append(s.devices, d)
	}
	return s, nil
}

func (r doctorResult) writeText(w io.Writer) {
	writeProcess(w, "this process", &r.This)
	if r.Other != nil {
		writeProcess(w, "other process", r.Other)
	}
	if kinds := r.Apart(); kinds != "" {
		row(w, "different namespaces", kinds)
	}
	row(w)
	t := table{least: []int{40, 0, 0, 60}}
	t.add("WAY", "DEVICES", "RESULT", "WHY")
	for _, f := range r.Findings {
		devices := ""
		if f.From != "" {
			devices = f.From
		}
		if f.To != "" && f.To != f.From {
			devices += " -> " + f.To
		}
		why := f.Why
		if f.Probably && why != "" {
			why = "probably: " + why
		}
		t.add(printable(f.Way), orDash(devices), string(f.Verdict), orDash(why))
	}
	t.write(w)
	if text := r.order(); text != "" {
		row(w)
		paragraph(w, text)
	}
	var remedies reasons
	for _, f := range r.Findings {
		if f.Remedy != "" {
			remedies.add(printable(f.Remedy), f.Way)
		}
	}
	if len(remedies.list) > 0 {
		row(w)
		row(w, "WHAT TO DO")
		for _, remedy := range remedies.list {
			paragraph(w, "  "+strings.Join(slices.Compact(remedies.names[remedy]), ", ")+": "+remedy)
		}
	}
}

// order says how package share orders unfinished work on tensors of devices; "" if it passes none.
func (r doctorResult) order() string {
	var signals []string
	memory := false
	for _, f := range r.Findings {
		if f.Verdict != doctor.Works && f.Verdict != doctor.Possible || f.From == "" {
			continue
		}
		if strings.HasPrefix(f.Way, "semaphore ") {
			pair := f.From
			if f.To != "" && f.To != f.From {
				pair += " -> " + f.To
			}
			signals = append(signals, pair)
		}
		memory = memory || strings.HasPrefix(f.Way, "memory ") && f.ZeroCopy && !f.Host
	}
	const frames = "; frames of rings are sent at once, and the subscriber waits"
	switch {
	case len(signals) > 0:
		return "unfinished work: the device of the receiver waits for the sender's device (semaphore_wait) on cards with a semaphore: " +
			strings.Join(slices.Compact(signals), ", ") + "; otherwise Send waits on the host (host_wait)" + frames
	case memory:
		return "unfinished work: Send waits on the host (host_wait), since no device has a semaphore that the other process opens; those of Vulkan usually do" + frames
	}
	return ""
}

// writeProcess writes the line of a process.
func writeProcess(w io.Writer, name string, f *doctor.Facts) {
	pid := "no number here"
	if f.PID > 0 {
		pid = strconv.Itoa(f.PID)
	}
	text := fmt.Sprintf("%s, user %d, group %d", pid, f.UID, f.GID)
	switch f.Seccomp {
	case 1, 2:
		text += ", seccomp filter"
	}
	if f.Shm != "" && f.ShmBytes > 0 {
		text += ", /dev/shm of " + formatBytes(f.ShmBytes)
	}
	row(w, name, text)
}
