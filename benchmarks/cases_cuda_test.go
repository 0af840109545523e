//go:build cuda && rocm && vulkan && linux && cgo

package benchmarks

import (
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// On the simulated device the cases run, small, but nothing of it is ever a result.
func TestTheCasesOfCardsRunAndASimulatedDeviceIsNotMeasured(t *testing.T) {
	registry := all.New()
	for _, c := range []struct {
		name  string
		cases []Case
	}{{"cuda", cudaCases(cuda)}, {"rocm", cardCases(rocm, core.DeviceROCMHost, Target{})}} {
		t.Run(c.name, func(t *testing.T) { testCardCases(t, registry, c.name, c.cases) })
	}
}

func testCardCases(t *testing.T, registry *core.Registry, name string, cases []Case) {
	t.Helper()
	backend, err := registry.Backend(name)
	if err != nil {
		t.Fatal(err)
	}
	coretest.NeedDriver(t, backend.Probe(t.Context()).Reason, "the driver of its vendor, or name the simulated one (make gpusim)")
	devices, err := backend.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), cases, Options{Registry: registry, Samples: 2, MaxTime: 1, Small: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Cases {
		if r.Status != OK || len(r.Times) != 2 {
			t.Errorf("%s: %+v", r.Name, r)
		}
		for _, b := range r.Baselines {
			if b.NotMeasured != "" {
				t.Errorf("%s: %+v", r.Name, b)
			}
		}
	}
	if !facts.Simulated(devices[0]) {
		return // a card
	}
	report, err = Run(t.Context(), cases, Options{Registry: registry, Samples: 2, MaxTime: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Cases {
		if r.Status != Unsupported || !strings.Contains(r.Reason, "simulated") {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
}
