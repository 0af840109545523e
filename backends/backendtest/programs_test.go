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
	const whole = "copies whole rows only"
	for name, h := range map[string]hooks{
		"does not wait for the last write of src": forgetsSrc,
		"does not wait for the last use of dst":   forgetsDst,
		"lets streams pass":                       {stream: streamHooks{wait: func(core.Stream, core.Event) error { return core.ErrClosed }}},
		whole:                                     copyOther(func(dst, src *core.Spec) { dst.Strides, src.Strides = nil, nil }),
	} {
		t.Run(name, func(t *testing.T) {
			if name != whole && raceDetector { // two goroutines may use the bytes of the simulated device at once
				t.Skip("the mistake is a data race, for which the race detector would fail this test")
			}
			h.options.Seed = 1
			d := opens(t, h, outer)(t)
			r := &recorder{TB: t}
			r.run(func() {
				for i := range uint64(500) {
					if runProgram(r, []core.Device{d}, newConfig(Options{Seed: 1}), i); r.Failed() {
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
