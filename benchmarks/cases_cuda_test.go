//go:build cuda && vulkan && linux && cgo

package benchmarks

import (
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core/coretest"
)

// On the simulated device the cases run, small, but nothing of it is ever a result.
func TestTheCasesOfCUDARunAndASimulatedDeviceIsNotMeasured(t *testing.T) {
	registry := all.New()
	backend, err := registry.Backend("cuda")
	if err != nil {
		t.Fatal(err)
	}
	coretest.NeedDriver(t, backend.Probe(t.Context()).Reason, "NVIDIA's driver, or name the simulated one (make gpusim)")
	devices, err := backend.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), cudaCases(cuda), Options{Registry: registry, Samples: 2, MaxTime: 1, Small: true})
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
	if !strings.HasPrefix(devices[0].Name, simulated) {
		return // a card
	}
	report, err = Run(t.Context(), cudaCases(cuda), Options{Registry: registry, Samples: 2, MaxTime: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Cases {
		if r.Status != Unsupported || !strings.Contains(r.Reason, simulated) {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
}
