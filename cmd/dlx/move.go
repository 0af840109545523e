package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/cmd/dlx/internal/move"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/tensorfile"
)

// moveResult is the result of `dlx move`.
type moveResult struct {
	File        string        `json:"file"`
	Copy        move.Policy   `json:"copy"`
	Tensors     []move.Report `json:"tensors"`
	BytesCopied int64         `json:"bytes_copied"`  // sum over all tensors: the load and one trip of each
	Median      time.Duration `json:"median_ns"`     // sum of the tensors' medians
	Verified    *bool         `json:"verified"`      // all elements were equal after every hop; null without --verify
	Out         string        `json:"out,omitempty"` // the file that was written
	LeftOut     []leftOut     `json:"left_out,omitempty"`
	// Incomplete says where an error or an interrupt ended the work; nil if all was done.
	Incomplete *moveEnd `json:"incomplete,omitempty"`
}

// moveEnd is the place where the work ended early.
type moveEnd struct {
	Tensor string `json:"tensor"`
	Trip   int    `json:"trip"` // the trip that was not finished, counted from 1
	trips  int    // the number of trips of --repeat
}

// maxRepeat bounds the memory for the times of all trips, which an exact median needs: 8 MB for
// each hop, and 8 MB for the whole trip.
const maxRepeat = 1_000_000

// moveFlags are the flags of `dlx move`.
type moveFlags struct {
	tensors []string
	voids   dtypesFlag
	via     devices
	policy  move.Policy
	repeat  int
	verify  bool
	out     string
}

func newMoveCommand(a *app) *cobra.Command {
	f := moveFlags{policy: move.IfNeeded}
	policies := choice[move.Policy]{&f.policy, []move.Policy{move.Never, move.IfNeeded, move.Always}}
	cmd := &cobra.Command{
		Use:   "move FILE --via DEVICE[,DEVICE...]",
		Short: "Move the tensors of a file along a route of devices and measure it",
		Long: `Move the tensors of a file along a route of devices. For each move from one device to
the next, a hop, report its mechanism, the bytes copied and the time. FILE may also be an
index of several files or a folder, as for dlx inspect. If FILE is -, read standard input.

A hop shares the memory (alias, map) or copies the elements (peer, direct, staged). dlx
plan --help explains these mechanisms, and dlx plan shows why a hop uses one of them.
With --copy if_needed, a hop shares memory if possible; if it has to copy, it allocates
memory that the next device can share. With --copy always, every hop copies. With --copy
never, the command fails if a hop has to copy.

Elements that are compressed, unaligned or in the other byte order in the file are first
copied into memory, once. The row "load" shows that copy. With --copy never, such a tensor
is an error.

The time of a hop ends when the elements can be read on the device. It includes the time
to allocate and open memory. A hop is cold if it opened the memory for its device; later
trips find the memory open. GB/S are 10^9 bytes copied per second.

After an error or an interrupt, the results so far are printed.

A device with an unknown type is an error in the command line, exit code 2. A device that
is missing on this machine or in this build is a failure, exit code 1.`,
		Example: `  dlx move testdata/digits.npy --via cpu,cpu --copy always --verify
  dlx move testdata/digits.npy --via cpu,vulkan:0,opencl:0,cpu --verify
  dlx move model.safetensors --tensor embedding --via cpu --repeat 10 --json
  dlx move images.npz --via cpu --copy always --out images.safetensors`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFile,
		PreRunE:           func(*cobra.Command, []string) error { return f.check() },
		RunE: a.runE(func(cmd *cobra.Command, args []string) (result, error) {
			r, err := a.move(cmd.Context(), args[0], f)
			if r.Tensors == nil {
				return nil, err
			}
			return r, err
		}),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.tensors, "tensor", nil, "move only the tensor with this `name`, plain or as dlx inspect prints it; may be repeated")
	flags.Var(&f.voids, "void-as", voidHelp)
	flags.Var(&f.via, "via", "the devices of the route, in order: cpu, cuda:1, ...")
	flags.Var(policies, "copy", "when a hop copies")
	flags.IntVar(&f.repeat, "repeat", 1, "move each tensor `N` times, at most a million, and report the shortest, median and longest time")
	flags.BoolVar(&f.verify, "verify", false, "compare the elements with those of the file after every hop, exit code 3 if they differ; for an .npz file, first verify its checksums")
	flags.Var((*filled)(&f.out), "out", "at the end of the route, write the tensors to an .npy, .npz or .safetensors `file`")
	cobra.CheckErr(cmd.MarkFlagRequired("via"))
	completeFlag(cmd, "via", a.completeDevices)
	completeFlag(cmd, "copy", policies.complete)
	completeFlag(cmd, "tensor", completeTensors)
	completeFlag(cmd, "out", cobra.FixedCompletions(fileExtensions, cobra.ShellCompDirectiveFilterFileExt))
	return cmd
}

// newHandoffCommand returns dlx move under its old name, which scripts use. A JSON document names the command as it was
// called, so that whoever reads these documents finds the name that it expects.
func newHandoffCommand(a *app) *cobra.Command {
	const renamed = "dlx handoff is the old name of dlx move"
	cmd := newMoveCommand(a)
	cmd.Use = strings.Replace(cmd.Use, "move", "handoff", 1)
	cmd.Long = renamed + ".\n\n" + cmd.Long
	cmd.Hidden = true // cobra's Deprecated would print to standard output, which has results only
	work := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.log.Warn().Msg(renamed + ": write dlx move")
		return work(cmd, args)
	}
	return cmd
}

// check returns an error if the flags are wrong.
func (f *moveFlags) check() error {
	if f.repeat < 1 || f.repeat > maxRepeat {
		return fmt.Errorf("invalid argument %d for --repeat: must be at least 1 and at most %d", f.repeat, maxRepeat)
	}
	if f.out == "" {
		return nil
	}
	_, err := tensorfile.FormatOf(f.out)
	return err
}

func (r moveResult) writeText(w io.Writer) {
	if len(r.Tensors) == 0 && len(r.LeftOut) > 0 { // the log has the reasons
		return
	}
	times := func(c move.Cost) string { return formatDuration(c.Median) }
	timesHeader := "TIME"
	if r.repeated() {
		times = func(c move.Cost) string {
			return formatDuration(c.Min) + "\t" + formatDuration(c.Median) + "\t" + formatDuration(c.Max)
		}
		timesHeader = "MIN\tMEDIAN\tMAX"
	}
	row(w, "TENSOR", "HOP", "FROM", "TO", "MECHANISM", "COPIED", timesHeader, "GB/S", "WAIT", "VERIFIED")
	for _, t := range r.Tensors {
		label := fmt.Sprintf("%s %v%v", shownName(t.Tensor), t.DType, t.Shape)
		if l := t.Load; l != nil {
			once := times(move.Cost{Min: l.Time, Median: l.Time, Max: l.Time})
			row(w, label, "load", move.Origin, core.CPU.String(), "copy, "+l.Reason, formatBytes(l.BytesCopied), once, "", "", "")
			label = ""
		}
		for i, h := range t.Hops {
			row(w, label, strconv.Itoa(i+1), h.From, h.To, way(h, t.Trips), formatBytes(h.BytesCopied), times(h.Cost), formatRate(h.GBPerSecond), h.Wait, verdict(h.Verified))
			label = ""
		}
		row(w, "", "all", move.Origin, t.Hops[len(t.Hops)-1].To, "", formatBytes(t.BytesCopied), times(t.Cost), formatRate(t.GBPerSecond), "", verdict(t.Verified))
	}
	for _, t := range r.Tensors {
		if t.Mismatch != nil {
			fmt.Fprintf(w, "\n%v", t.Mismatch)
		}
	}
	if end := r.Incomplete; end != nil {
		fmt.Fprintf(w, "\nincomplete: ended with tensor %s on trip %d of %d", shownName(end.Tensor), end.Trip, end.trips)
	}
	fmt.Fprintf(w, "\ntensors: %d, copied: %s, time: %s, verified: %s\n", len(r.Tensors), formatBytes(r.BytesCopied), formatDuration(r.Median), verdict(r.Verified))
}

// way returns the mechanism of a hop, with "cold" if every trip had to open the memory.
func way(h move.Hop, trips int) string {
	if h.Mechanism == exchange.Map.String() && h.Cold == trips {
		return h.Mechanism + ", cold"
	}
	return h.Mechanism
}

// repeated reports whether a tensor made more than one trip.
func (r moveResult) repeated() bool {
	return slices.ContainsFunc(r.Tensors, func(t move.Report) bool { return t.Trips > 1 })
}

// verdict returns the word for the result of a comparison; nil means not compared.
func verdict(verified *bool) string {
	switch {
	case verified == nil:
		return "-"
	case *verified:
		return "yes"
	default:
		return "NO"
	}
}
