package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/dlx-go/dlx/internal/atomicfile"
	"github.com/dlx-go/dlx/internal/strictjson"
)

// experiment is what one child process does.
type experiment struct {
	name, about string
	limit       time.Duration // after which the process is killed
	do          func(*reporter) error
}

// Status says how an experiment ended.
type Status string

// Skipped and failed experiments have a reason. One that was killed, or whose process crashed, keeps the rows that it
// had reported.
const (
	Done    Status = "done"
	Skipped Status = "skipped"
	Failed  Status = "failed"
	Killed  Status = "killed"
	Crashed Status = "crashed"
)

// row is one finding of an experiment.
type row map[string]any

// outcome is what is known of one experiment.
type outcome struct {
	Name      string            `json:"name"`
	About     string            `json:"about"`
	Status    Status            `json:"status"`
	Reason    string            `json:"reason,omitempty"`
	Simulated bool              `json:"simulated"`        // CUDA's driver or Vulkan's device is none of a card
	Driven    map[string]string `json:"driven,omitempty"` // the device of each API that was used
	Seconds   float64           `json:"seconds"`
	Rows      []json.RawMessage `json:"rows"`
}

// report is the content of the file.
type report struct {
	Date        time.Time `json:"date"`
	Revision    string    `json:"revision,omitempty"` // of the source of this program, as the version control system names it
	Simulated   bool      `json:"simulated"`          // an experiment was
	Complete    bool      `json:"complete"`           // no experiment is left to run
	Seconds     float64   `json:"seconds"`
	Experiments []outcome `json:"experiments"`
}

// session runs experiments and writes the report.
type session struct {
	path    string
	command func(experiment) []string // of the child process
	stdout  io.Writer
	grace   time.Duration // for a process that was killed to end
}

func newSession(path string, command func(experiment) []string, stdout io.Writer) *session {
	return &session{path: path, command: command, stdout: stdout, grace: 5 * time.Second}
}

// run runs the experiments one after the other. It fails if the report cannot be written, and if an experiment failed,
// crashed or was killed.
func (s *session) run(ctx context.Context, all []experiment, limit time.Duration) error {
	log, err := os.Create(s.path + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	start := time.Now()
	bad := 0
	r := report{Date: start.UTC().Truncate(time.Second), Revision: revision(), Experiments: []outcome{}}
	for _, x := range all {
		var o outcome
		if left := limit - time.Since(start); left < time.Second {
			o = outcome{Status: Skipped, Reason: fmt.Sprintf("no time is left of the %v for all experiments", limit)}
		} else {
			fmt.Fprintf(log, "== %s\n", x.name)
			o = s.experiment(ctx, x, min(x.limit, left), log)
		}
		o.Name, o.About = x.name, x.about
		if o.Rows == nil {
			o.Rows = []json.RawMessage{}
		}
		r.Experiments = append(r.Experiments, o)
		if o.Status != Done && o.Status != Skipped {
			bad++
		}
		r.Simulated = r.Simulated || o.Simulated
		r.Seconds = seconds(time.Since(start))
		r.Complete = len(r.Experiments) == len(all)
		if err := s.write(ctx, r); err != nil {
			return err
		}
		fmt.Fprintf(s.stdout, "%-8s %5.1f s  %3d rows  %-44s %s\n", o.Status, o.Seconds, len(o.Rows), o.Name, o.Reason)
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d experiments failed, crashed or were killed", bad, len(all))
	}
	return nil
}

// revision is empty for a build without it.
func revision() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

func (s *session) write(ctx context.Context, r report) error {
	return atomicfile.Write(ctx, s.path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(r)
	})
}

// experiment runs one child process. The child writes messages to descriptor 3, since drivers print to the others.
func (s *session) experiment(ctx context.Context, x experiment, limit time.Duration, log io.Writer) outcome {
	start := time.Now()
	failed := func(err error) outcome { return outcome{Status: Failed, Reason: err.Error()} }
	r, w, err := os.Pipe()
	if err != nil {
		return failed(err)
	}
	args := s.command(x)
	child := exec.CommandContext(ctx, args[0], args[1:]...)
	printed := new(tail)
	child.Stdout, child.Stderr = io.MultiWriter(log, printed), io.MultiWriter(log, printed)
	child.WaitDelay = s.grace // a process of the child's may hold the pipes of its output
	child.ExtraFiles = []*os.File{w}
	err = child.Start()
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return failed(err)
	}
	var got inbox
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer r.Close()
		got.read(r)
	}()
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()

	timer := time.NewTimer(limit)
	defer timer.Stop()
	killed, stuck := false, false
	select {
	case err = <-ended:
	case <-timer.C:
		killed = true
		_ = child.Process.Kill()
		select {
		case err = <-ended:
		case <-time.After(2 * s.grace): // it is in a call of the kernel's that does not end
			stuck = true
		}
	}
	if !stuck {
		select {
		case <-read:
		case <-time.After(s.grace):
		}
	}
	o := got.outcome()
	o.Seconds = seconds(time.Since(start))
	switch {
	case killed:
		o.Status, o.Reason = Killed, fmt.Sprintf("it was not done after %v", limit)
		if stuck {
			o.Reason += ", and its process cannot be killed"
		}
		o.Reason += printed.last()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay), o.Status == "":
		o.Status, o.Reason = Crashed, fmt.Sprintf("its process ended with %v%s", child.ProcessState, printed.last())
	}
	return o
}

// message is a line that a child writes.
type message struct {
	Row       json.RawMessage   `json:"row,omitempty"`
	Status    Status            `json:"status,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	Simulated bool              `json:"simulated,omitempty"`
	Driven    map[string]string `json:"driven,omitempty"`
}

// inbox collects the messages of a child.
type inbox struct {
	mu sync.Mutex
	o  outcome
}

func (b *inbox) read(r io.Reader) {
	d := strictjson.NewDecoder(r)
	for {
		var m message
		if d.Decode(&m) != nil { // the end, or a line that a killed process has not finished
			return
		}
		b.mu.Lock()
		if m.Row != nil {
			b.o.Rows = append(b.o.Rows, m.Row)
		}
		if m.Status != "" {
			b.o.Status, b.o.Reason = m.Status, m.Reason
		}
		b.o.Simulated = b.o.Simulated || m.Simulated
		for api, device := range m.Driven {
			if b.o.Driven == nil {
				b.o.Driven = make(map[string]string)
			}
			b.o.Driven[api] = device
		}
		b.mu.Unlock()
	}
}

func (b *inbox) outcome() outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.o
}

// tail keeps the end of what a child prints.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = bytes.Clone(t.text[max(0, len(t.text)-1000):])
	return len(p), nil
}

// last is the last line, as the end of a sentence.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	if line := lines[len(lines)-1]; line != "" {
		return ": " + line
	}
	return ""
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// reporter is how an experiment says what it finds.
type reporter struct {
	settings
	out   *json.Encoder
	small bool // the device is simulated: little memory, few repetitions
}

// row reports one finding at once.
func (r *reporter) row(x row) {
	text, err := json.Marshal(x)
	if err == nil {
		err = r.out.Encode(message{Row: text})
	}
	if err != nil {
		panic(fmt.Sprintf("the row %v cannot be reported: %v", x, err)) // which is how the experiment ends: crashed
	}
}

// drives says on which device of an API the experiment runs.
func (r *reporter) drives(api, device string, simulated bool) {
	r.small = r.small || simulated
	_ = r.out.Encode(message{Driven: map[string]string{api: device}, Simulated: simulated})
}

// skip is the error of an experiment that cannot be made here.
type skip string

func (s skip) Error() string { return string(s) }

// runChild runs one experiment and returns the exit status. The process must end at once, without the exit handlers of
// drivers: threads may still be in calls that do not return.
func runChild(all []experiment, name string, s settings) int {
	out := os.NewFile(3, "messages")
	r := &reporter{settings: s, out: json.NewEncoder(out)}
	for _, x := range all {
		if x.name != name {
			continue
		}
		end := message{Status: Done}
		if err := x.do(r); err != nil {
			end = message{Status: Failed, Reason: err.Error()}
			if errors.As(err, new(skip)) {
				end.Status = Skipped
			}
		}
		_ = r.out.Encode(end)
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s has no experiment %q\n", filepath.Base(os.Args[0]), name)
	return 2
}
