package backendtest

import (
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
		if source, rule, ok := strings.Cut(c.Rule, ": "); !ok || rule == "" || !(strings.HasPrefix(source, "core.") || strings.HasPrefix(source, "dlpack.")) {
			t.Errorf("%s: rule %q does not begin with its source", c.Name, c.Rule)
		}
		if c.run == nil {
			t.Errorf("%s does nothing", c.Name)
		}
	}
	if len(seen) < 40 {
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

func TestCPU(t *testing.T) { Run(t, openCPU) }

// fakes opens the two devices of one simulated backend.
func fakes(o coretest.Options) (first, second func(testing.TB) core.Device) {
	o.Submit = stream.Submit
	b := coretest.NewBackend(o)
	open := func(index int32) func(testing.TB) core.Device {
		return func(tb testing.TB) core.Device {
			d, err := b.Open(tb.Context(), core.DeviceID{Type: core.DeviceExt, Index: index})
			if err != nil {
				tb.Fatal(err)
			}
			return d
		}
	}
	return open(0), open(1)
}

func TestFake(t *testing.T) {
	for name, o := range map[string]coretest.Options{"device waits": {}, "host waits": {HostWaits: true}} {
		t.Run(name, func(t *testing.T) {
			o.Log = t.Logf
			first, second := wrapped(o, hooks{})
			Run(t, func(tb testing.TB) core.Device { return first(tb) }, WithPeer(func(tb testing.TB) core.Device { return second(tb) }))
		})
	}
}

// noDLPack is what the cases on DLPack are skipped with in a build without it.
const noDLPack = "skipped: this build has no DLPack"

func TestCaseIsSkippedOnlyWithoutItsCapability(t *testing.T) {
	for _, c := range Cases() {
		r := record(t, c, openCPU)
		lacks := !openAndClose(t, openCPU).Capabilities.Has(c.Needs)
		if r.skipped != lacks && !r.said(noDLPack) {
			t.Errorf("%s: skipped %v, lacks a capability %v", c.Name, r.skipped, lacks)
		}
		if lacks && !(r.said("skipped: needs capability") && r.said("which cpu does not declare")) {
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
	var d *device
	first, _ := wrapped(coretest.Options{}, hooks{})
	wantFailure(t, "peer/copy", "WithPeer", func(tb testing.TB) core.Device { d = first(tb); return d })
	d.release(t)
}

// A device that offers no means to hold a stream: neither events of others nor semaphores.
func TestHoldKeepsAStreamBusyWhereNothingElseWorks(t *testing.T) {
	first, _ := fakes(coretest.Options{HostWaits: true})
	e := &env{TB: t, cfg: newConfig(nil), ctx: t.Context()}
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
