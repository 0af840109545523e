package backendtest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

func TestMain(m *testing.M) { coretest.Main(m) }

func TestCasesHaveRulesAndUniqueNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range Cases() {
		if seen[c.Name] {
			t.Errorf("%s: the name is taken", c.Name)
		}
		seen[c.Name] = true
		if theme, what, ok := strings.Cut(c.Name, "/"); !ok || theme == "" || what == "" || strings.ContainsAny(c.Name, " _") {
			t.Errorf("%q is no name of the form theme/what", c.Name)
		}
		if source, rule, ok := strings.Cut(c.Rule, ": "); !ok || rule == "" || !(strings.HasPrefix(source, "core.") || strings.HasPrefix(source, "backendkit.") || strings.HasPrefix(source, "dlpack.")) {
			t.Errorf("%s: rule %q does not begin with its source", c.Name, c.Rule)
		}
		if c.run == nil {
			t.Errorf("%s does nothing", c.Name)
		}
	}
	if len(seen) < 120 {
		t.Errorf("%d cases; some table is missing in Cases", len(seen))
	}
}

func openCPU(tb testing.TB) core.Device {
	d, err := cpu.New().Open(tb.Context(), core.CPU)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func TestCPU(t *testing.T) { Run(t, openCPU, Options{}) }

// fakes opens the two devices of one simulated backend.
func fakes(o coretest.Options) (first, second func(testing.TB) core.Device) {
	o.Submit = stream.Submit
	b := coretest.NewBackend(o)
	id := core.DeviceID{Type: core.DeviceExt}
	if o.Opaque {
		id.Type = core.DeviceWebGPU
	}
	open := func(index int32) func(testing.TB) core.Device {
		return func(tb testing.TB) core.Device {
			d, err := b.Open(tb.Context(), core.DeviceID{Type: id.Type, Index: index})
			if err != nil {
				tb.Fatal(err)
			}
			return d
		}
	}
	return open(0), open(1)
}

func TestFake(t *testing.T) {
	kinds := map[string]coretest.Options{
		"device waits": {}, "host waits": {HostWaits: true}, "files": {Files: true, Converts: true},
		"opaque": {Opaque: true},
	}
	for i, name := range slices.Sorted(maps.Keys(kinds)) {
		t.Run(name, func(t *testing.T) {
			o := kinds[name]
			o.Log = t.Logf
			first, second := fakes(o)
			options := Options{Peer: second}
			if name != "files" { // which can do all that the others can
				options.Variant, options.Variants = i, len(kinds)
			}
			Run(t, first, options)
		})
	}
}

// The hooks alone make the difference between a mutant and a device that keeps all rules.
func TestWrappedFake(t *testing.T) {
	if coretest.Sanitized {
		t.Skip("with a sanitizer TestFake runs the same devices: the wrapper is for the mutants")
	}
	for i, name := range []string{"addresses", "opaque"} {
		t.Run(name, func(t *testing.T) {
			first, second := wrapped(hooks{options: coretest.Options{Opaque: name == "opaque", Converts: true, Log: t.Logf}})
			Run(t, func(tb testing.TB) core.Device { return first(tb).outer },
				Options{Peer: func(tb testing.TB) core.Device { return second(tb).outer }, Variant: i, Variants: 2})
		})
	}
}

// noDLPack is what the cases on DLPack are skipped with in a build without it.
const noDLPack = "skipped: this build has no DLPack"

func TestCaseIsSkippedOnlyWithoutItsCapability(t *testing.T) {
	for _, c := range Cases() {
		r := record(t, c, openCPU)
		has := openAndClose(t, openCPU).Capabilities
		needs, lacks := !has.Has(c.Needs), has&c.Lacks != 0
		if r.skipped != (needs || lacks) && !r.said(noDLPack) {
			t.Errorf("%s: skipped %v, needs a capability %v, must not have one %v", c.Name, r.skipped, needs, lacks)
		}
		if needs && !(r.said("skipped: needs capability") && r.said("which cpu does not declare")) ||
			lacks && !(r.said("skipped: is for devices without capability") && r.said("which cpu declares")) {
			t.Errorf("%s was skipped with %q", c.Name, r.log)
		}
	}
}

func openAndClose(t *testing.T, open func(testing.TB) core.Device) core.Properties {
	d := open(t)
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	return d.Properties()
}

func TestPeerCasesNeedAPeer(t *testing.T) {
	wantFailure(t, "peer/copy", "option Peer", opens(t, hooks{}, outer))
}

// A device that offers no means to hold a stream: neither events of others nor semaphores.
func TestHoldKeepsAStreamBusyWhereNothingElseWorks(t *testing.T) {
	first, _ := fakes(coretest.Options{HostWaits: true})
	e := &env{TB: t, cfg: newConfig(Options{}), ctx: t.Context()}
	e.dev = e.open(func(tb testing.TB) core.Device { return struct{ core.Device }{first(tb)} })
	s := e.stream()
	release, sure := e.hold(s)
	if sure {
		t.Error("the stream is said to be held")
	}
	ev := e.record(s)
	if e.isDone(ev) {
		t.Error("the stream has nothing to do")
	}
	release()
	e.synchronize(s)
}

// Streams that can neither wait for the host nor for semaphores are held as the test says.
func TestHoldIsWhatWithHoldNames(t *testing.T) {
	first, _ := fakes(coretest.Options{HostWaits: true})
	gate := stream.NewEvent()
	hold := func(_ testing.TB, s core.Stream) func() {
		if err := s.(*coretest.Stream).Enqueue(func() error { return gate.Wait(t.Context()) }); err != nil {
			t.Error(err)
		}
		return func() { gate.Complete(nil) }
	}
	e := &env{TB: t, cfg: newConfig(Options{Hold: hold}), ctx: t.Context()}
	e.dev = e.open(first)
	s := e.stream()
	release, sure := e.hold(s)
	if !sure {
		t.Error("the stream is not said to be held")
	}
	synchronized := e.start(func() error { return s.Synchronize(t.Context()) })
	if gate.Wait(shortly(t)) == nil {
		t.Error("the stream was released too early")
	}
	release()
	e.check(e.finish(synchronized), "Synchronize")
}

// shortly is a context that ends soon.
func shortly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), newConfig(Options{}).grace)
	t.Cleanup(cancel)
	return ctx
}

// Memory to import is made as the test says, and freed when the case is over.
func TestPointersAreThoseOfWithPointer(t *testing.T) {
	for _, o := range []coretest.Options{{}, {Opaque: true}} {
		made, freed := 0, 0
		outside := func(tb testing.TB, d core.Device, size int64) uintptr {
			m, err := d.Alloc(tb.Context(), size, core.AllocOptions{})
			if err != nil {
				tb.Fatal(err)
			}
			made++
			tb.Cleanup(func() { freed++; m.Free() })
			return m.Handle
		}
		first, _ := fakes(o)
		wantPass(t, casesNamed(t, "import-pointer/no-copy", "import-pointer/owner", "import-pointer/failure"), first, Options{Pointer: outside})
		if made != 3 || freed != 3 {
			t.Errorf("memory was made %d times and freed %d times; want 3", made, freed)
		}
	}
}
