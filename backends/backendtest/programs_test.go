package backendtest

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestProgramsOnTheHost(t *testing.T) { Programs(t, openCPU, 1000, Options{}) }

func TestProgramsOnSimulatedDevices(t *testing.T) {
	for name, o := range map[string]coretest.Options{"device waits": {}, "host waits": {HostWaits: true}, "opaque": {Opaque: true}} {
		t.Run(name, func(t *testing.T) {
			first, second := fakes(o)
			Programs(t, first, 300, Options{Peer: second})
		})
	}
}

func TestProgramsFindDevicesThatGoWrong(t *testing.T) {
	for name, m := range map[string]struct {
		hooks
		races bool // two goroutines may then use the bytes of the simulated device at once
	}{
		"does not wait for the last write of src": {races: true, hooks: hooks{copy: forget(false, true)}},
		"does not wait for the last use of dst":   {races: true, hooks: hooks{copy: forget(true, false)}},
		"copies whole rows only":                  {hooks: hooks{copy: copyOther(func(dst, src *core.Spec) { dst.Strides, src.Strides = nil, nil })}},
		"lets streams pass":                       {races: true, hooks: hooks{stream: streamHooks{wait: func(core.Stream, core.Event) error { return core.ErrClosed }}}},
	} {
		t.Run(name, func(t *testing.T) {
			if m.races && raceDetector {
				t.Skip("the mistake is a data race, for which the race detector would fail this test")
			}
			first, _ := wrapped(coretest.Options{Seed: 1}, m.hooks)
			d := first(t)
			defer d.release(t)
			r := &recorder{TB: t}
			r.run(func() {
				for i := range uint64(500) {
					if runProgram(r, []core.Device{d.outer}, newConfig(Options{Seed: 1}), i); r.Failed() {
						return
					}
				}
			})
			if !r.Failed() {
				t.Error("no program shows it")
			}
		})
	}
}
