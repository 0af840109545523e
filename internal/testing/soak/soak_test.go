package soak

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
	"github.com/dlx-go/dlx/stream"
)

// childVariable holds the job of a process that a test has started.
const childVariable = "DLX_SOAK_JOB"

func TestMain(m *testing.M) {
	if os.Getenv(peerVariable) != "" {
		os.Exit(servePeer())
	}
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(child(text))
	}
	coretest.Main(m)
}

// unready is the exit status of a process that could not begin. Go itself ends others with 2.
const unready = 4

// child does a job, proves that nothing is left, and returns the exit status.
func child(text string) int {
	var j Job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return unready
	}
	devices, err := openWorld()
	var peer *parts.Peer
	endPeer := func() error { return nil }
	if err == nil {
		peer, endPeer, err = startPeer(devices)
	}
	if err == nil {
		err = j.Limits.Set()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return unready
	}
	w := &World{Devices: devices, Cover: NewCoverage(), Peer: peer, Tight: j.Limits != parts.Limits{}, Timeout: 2 * time.Minute}
	if j.Repeat > 0 { // one program that is being made short
		w.Timeout = 20 * time.Second
	}
	stop := make(chan struct{})
	if os.Getenv("GOGC") == "1" {
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					runtime.GC()
				}
			}
		}()
	}
	if !j.Run(w, os.Stdout) {
		return 3
	}
	close(stop)
	dlpack.Flush()
	if err := endPeer(); err != nil {
		fmt.Fprintln(os.Stderr, "the other process:", err)
		return 3
	}
	for _, d := range devices {
		if err := d.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "closing %s: %v\n", d.Name, err)
			return 3
		}
	}
	if left := leftOver(); left != "" {
		fmt.Fprintln(os.Stderr, "left open:", left)
		return 3
	}
	return 0
}

// leftOver names what is still open, after a while in which deleters do their work.
func leftOver() string {
	var left string
	for range 200 {
		left = ""
		for name, n := range core.Live() {
			if n != 0 {
				left += fmt.Sprintf(" %s: %d", name, n)
			}
		}
		if left == "" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return left
}

// openWorld opens every device of this build, the host first, and simulated ones whose
// work runs as late as it may; or of these the host and those that DLX_SOAK_DEVICES names.
func openWorld() ([]*Device, error) {
	ctx := context.Background()
	var devices []*Device
	add := func(b core.Backend) error {
		if p := b.Probe(ctx); !p.Available && coretest.MayLack(p.Reason) {
			return nil
		}
		list, err := b.Devices(ctx)
		if err != nil {
			return err
		}
		for _, p := range list {
			if only := os.Getenv("DLX_SOAK_DEVICES"); only != "" && !strings.Contains(","+only+",", ","+p.ID.String()+",") && p.ID != core.CPU {
				continue
			}
			open := func(ctx context.Context) (core.Device, error) { return b.Open(ctx, p.ID) }
			d, err := open(ctx)
			if err != nil {
				return err
			}
			devices = append(devices, &Device{Name: p.ID.String(), Open: open, Device: d})
		}
		return nil
	}
	for _, b := range all.New().Backends() {
		if err := add(b); err != nil {
			return nil, err
		}
	}
	for _, o := range []coretest.Options{{Submit: stream.Submit}, {Submit: stream.Submit, Opaque: true}} {
		if err := add(coretest.NewBackend(o)); err != nil {
			return nil, err
		}
	}
	return devices, nil
}

// result is what came of a process.
type result struct {
	program  uint64 // the last that began
	steps    int64
	wrong    string // empty if all went well
	coverage map[combination]int64
	samples  []Sample
	short    int64

	// The devices could not be opened, or the limits not be set.
	unready bool
	// The process got no memory or thread and ended for that; see endsForWant.
	exhausted bool
}

// runChild does a job in a process of its own.
func runChild(ctx context.Context, j Job, env []string) result {
	self, err := os.Executable()
	if err != nil {
		return result{wrong: err.Error()}
	}
	return runBinary(ctx, self, j, env)
}

// endsForWant are the words with which a process ends that gets no memory or thread for
// Go itself, or for a context of llvmpipe, which dereferences nil then.
var endsForWant = []string{"pthread_create failed", "runtime: out of memory", "runtime: cannot allocate", "egl._Cfunc_dlx_create_context("}

// runBinary does a job in a process of a test binary of this package.
func runBinary(ctx context.Context, self string, j Job, env []string) result {
	text, err := json.Marshal(j)
	if err != nil {
		return result{wrong: err.Error()}
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(append(os.Environ(), "GOTRACEBACK=all"), env...)
	if o := os.Getenv("ASAN_OPTIONS"); o != "" {
		// What drivers lose when they get no memory is not looked for: counters tell of what is ours.
		cmd.Env = append(cmd.Env, "ASAN_OPTIONS="+o+":detect_leaks=0")
	}
	cmd.Env = append(cmd.Env, childVariable+"="+string(text))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	r := result{coverage: make(map[combination]int64)}
	lines := bufio.NewScanner(&out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		if m.Program != nil {
			r.program = *m.Program
		}
		r.steps, r.short = max(r.steps, m.Steps), max(r.short, m.Short)
		if m.Wrong != "" {
			r.wrong = m.Wrong
		}
		if m.Sample != nil {
			r.samples = append(r.samples, *m.Sample)
		}
		for _, c := range m.Coverage {
			r.coverage[c.combination] += c.N
		}
	}
	if err != nil && r.wrong == "" {
		noise := errs.String()
		if len(noise) > 4000 {
			noise = noise[:4000]
		}
		for _, end := range endsForWant {
			if strings.Contains(noise, end) && j.Limits.Memory > 0 {
				r.exhausted = true
				return r
			}
		}
		r.unready = cmd.ProcessState.ExitCode() == unready
		r.wrong = fmt.Sprintf("the process ended with %v\n%s", err, noise)
		if strings.Contains(noise, hangs) {
			r.wrong = fmt.Sprintf("%s\n%s", hangs, noise)
		}
	}
	return r
}

// mode is one way to run programs.
type mode struct {
	name   string
	share  int64 // of the steps, in percent
	env    []string
	limits parts.Limits
}

var modes = []mode{
	{name: "plain", share: 40},
	{name: "collector", share: 25, env: []string{"GOGC=1", "GODEBUG=clobberfree=1"}},
	{name: "reuse", share: 15, env: []string{"DLX_GPUSIM_REUSE=1", "DLX_GPUSIM_CONCURRENT=0"}},
	{name: "one-queue", share: 10, env: []string{"DLX_GPUSIM_ONE_QUEUE=1", "DLX_GPUSIM_PEERS=0", "GOMAXPROCS=1"}},
	{name: "descriptors", share: 5, limits: parts.Limits{Descriptors: 3}},
	{name: "memory", share: 5, limits: parts.Limits{Memory: 32 << 20}},
}

// number is an environment variable as a number.
func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// TestPrograms runs random programs: DLX_SOAK_STEPS steps, from DLX_SOAK_SEED on, in
// the modes that DLX_SOAK_MODES names, or all.
func TestPrograms(t *testing.T) {
	devices, err := openWorld()
	if err != nil {
		coretest.NeedDriver(t, err.Error(), "the drivers that scripts/software-drivers.sh names")
	}
	world := &World{Devices: devices, Cover: NewCoverage()}
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	steps, seed := int64(number("DLX_SOAK_STEPS", defaultSteps)), number("DLX_SOAK_SEED", 1)
	t.Logf("seed %d, %d steps, on %s", seed, steps, strings.Join(names, ", "))
	only := os.Getenv("DLX_SOAK_MODES")
	for i, m := range modes {
		if only != "" && !strings.Contains(","+only+",", ","+m.name+",") {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			if m.limits.Memory > 0 && coretest.Sanitized {
				t.Skip("the sanitizer ends a process that gets no memory")
			}
			j := Job{Seed: seed + uint64(i)<<32, Steps: steps * m.share / 100, Limits: m.limits}
			if only != "" {
				j.Steps = steps
			}
			start := time.Now()
			r := runChild(t.Context(), j, m.env)
			for done := r; done.exhausted && r.steps < j.Steps; { // which is no defect of ours
				rest := j
				rest.Seed, rest.Steps = done.program+1, j.Steps-r.steps
				done = runChild(t.Context(), rest, m.env)
				r.wrong, r.program = done.wrong, done.program
				r.steps, r.short = r.steps+done.steps, r.short+done.short
				maps.Copy(r.coverage, done.coverage)
			}
			world.Cover.merge(r.steps, r.coverage)
			t.Logf("%d steps in %v, %d calls failed for want of something", r.steps, time.Since(start).Round(time.Millisecond), r.short)
			if r.wrong != "" {
				report(t, names, devices, j, m, r)
			}
		})
	}
	t.Logf("%d steps%s", world.Cover.steps, world.Cover.Tables())
	if missing := world.Cover.Missing(world); len(missing) > 0 && only == "" && steps >= 50000 && !t.Failed() {
		t.Errorf("never exercised: %s", strings.Join(missing, "; "))
	}
}

// TestFlat runs programs for DLX_SOAK_TIME and proves that the process holds no more at
// the end than after a third of that. The simulated card hands addresses out again at
// once here: otherwise it keeps a little of each that was ever used.
func TestFlat(t *testing.T) {
	if coretest.Sanitized {
		t.Skip("a sanitizer keeps memory of its own")
	}
	length, err := time.ParseDuration(os.Getenv("DLX_SOAK_TIME"))
	short := err != nil
	if short {
		length = 3 * time.Second
	}
	seed := number("DLX_SOAK_SEED", 1)
	r := runChild(t.Context(), Job{Seed: seed, Until: length, Sample: length / 30}, []string{"DLX_GPUSIM_REUSE=1"})
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "TIME\tSTEPS\tRESIDENT MiB\tHEAP MiB\tDESCRIPTORS\tGOROUTINES\tLIVE\tOPENED\t")
	for _, s := range r.samples {
		fmt.Fprintf(w, "%v\t%d\t%.1f\t%.1f\t%d\t%d\t%d\t%d\t\n", s.After.Round(time.Second/10), s.Steps, float64(s.Resident)/(1<<20), float64(s.Heap)/(1<<20), s.Descriptors, s.Goroutines, s.Live, s.Opened)
	}
	_ = w.Flush()
	t.Logf("seed %d\n%s", seed, table.String())
	if n := len(r.samples); n > 0 {
		t.Logf("live at the end: %v", r.samples[n-1].Kinds)
	}
	if r.wrong != "" {
		t.Fatalf("program %d: %s", r.program, r.wrong)
	}
	if len(r.samples) < 6 {
		if !short {
			t.Fatalf("%d samples: too few to compare", len(r.samples))
		}
		t.Skipf("%d samples in %v: the machine is too slow to compare them", len(r.samples), length)
	}
	early, late := highest(r.samples[len(r.samples)/3:len(r.samples)*2/3]), highest(r.samples[len(r.samples)*2/3:])
	for _, x := range []struct {
		name              string
		early, late, some int64
	}{
		{"resident memory", early.Resident, late.Resident, max(64<<20, early.Resident/8)},
		{"Go's heap", early.Heap, late.Heap, 16 << 20},
		{"descriptors", int64(early.Descriptors), int64(late.Descriptors), 8},
		{"goroutines", int64(early.Goroutines), int64(late.Goroutines), 16},
		{"live objects", early.Live, late.Live, 64},
		{"opened memories", int64(early.Opened), int64(late.Opened), 0},
	} {
		if short { // the devices have not yet made all that they keep
			x.some *= 4
		}
		if x.late > x.early+x.some {
			t.Errorf("%s grew from %d to %d", x.name, x.early, x.late)
		}
	}
}

// highest is the most of each figure.
func highest(list []Sample) Sample {
	var h Sample
	for _, s := range list {
		h.Resident, h.Heap = max(h.Resident, s.Resident), max(h.Heap, s.Heap)
		h.Descriptors, h.Goroutines = max(h.Descriptors, s.Descriptors), max(h.Goroutines, s.Goroutines)
		h.Live, h.Opened = max(h.Live, s.Live), max(h.Opened, s.Opened)
	}
	return h
}

// report makes the program that went wrong short, and prints it as Go.
func report(t *testing.T, names []string, devices []*Device, j Job, m mode, r result) {
	t.Errorf("mode %s, program %d: %s", m.name, r.program, r.wrong)
	one := Job{Seed: r.program, Limits: j.Limits, Repeat: int(number("DLX_SOAK_REPEAT", 5))}
	n := one.Length(devices)
	again := func(keep []bool, traces string) string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		job := one
		job.Keep, job.Traces = keep, traces
		r := runChild(ctx, job, m.env)
		if ctx.Err() != nil {
			return "" // its end says nothing
		}
		return r.wrong
	}
	if again(nil, "") == "" {
		t.Logf("the program alone went well %d times", one.Repeat)
		return
	}
	keep := Shrink(n, time.Duration(number("DLX_SOAK_SHRINK", 60))*time.Second, func(keep []bool) bool { return class(again(keep, "")) == class(r.wrong) })
	folder := t.TempDir()
	wrong := again(keep, folder)
	source, err := Source(folder, names, r.program)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(os.TempDir(), fmt.Sprintf("dlx-soak-%d.go.txt", r.program))
	if to := os.Getenv("DLX_SOAK_OUT"); to != "" {
		out = filepath.Join(to, fmt.Sprintf("soak-%d.go", r.program))
	}
	if err := os.WriteFile(out, []byte(source), 0o644); err != nil {
		t.Log(err)
	}
	left := 0
	for _, kept := range keep {
		if kept {
			left++
		}
	}
	t.Errorf("the shortest program found, of %d steps, in %s: %s\n%s", left, out, wrong, source)
}

// class tells defects apart, so that a program keeps its own while it gets shorter.
func class(wrong string) string {
	for _, sort := range []string{"elements are wrong", hangs, "the process ended", "reports", "left open"} {
		if strings.Contains(wrong, sort) {
			return sort
		}
	}
	name, _, _ := strings.Cut(wrong, ":")
	return name
}

// defaultSteps is how many steps go test does.
var defaultSteps = uint64(4000)
