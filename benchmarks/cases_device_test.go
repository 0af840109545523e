package benchmarks

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

func TestEveryCaseOfADeviceRuns(t *testing.T) {
	registry := hostRegistry(t)
	if err := registry.Register(coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})); err != nil {
		t.Fatal(err)
	}
	ext := core.DeviceID{Type: core.DeviceExt}
	cases := slices.Concat(deviceCases(ext), pairCases(core.CPU, ext), pairCases(ext, core.DeviceID{Type: core.DeviceExt, Index: 1}), manyCases(core.CPU, ext))
	report, err := Run(t.Context(), cases, Options{Registry: registry, Samples: 2, MaxTime: 1, Small: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Cases {
		// Nobody else can use the simulated device's memory in place.
		if strings.HasPrefix(r.Name, "exchange/ext_dev-") && !strings.Contains(r.Name, "/staged/") {
			if r.Status != Unsupported || r.Way != "" || r.Reason == "" {
				t.Errorf("%s: %+v", r.Name, r)
			}
			continue
		}
		if r.Status != OK || len(r.Times) != 2 {
			t.Errorf("%s: %+v", r.Name, r)
		}
		if strings.HasPrefix(r.Name, "exchange/") != (r.Way != "") {
			t.Errorf("%s went by %q", r.Name, r.Way)
		}
	}
}

func TestCasesOfADeviceThatIsNotThereSayWhy(t *testing.T) {
	cases := Select(Cases(), "device/", "exchange/cpu-vulkan", "many/vulkan", "cuda/", "rocm/")
	report, err := Run(t.Context(), cases, Options{Registry: hostRegistry(t), Small: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Cases {
		if r.Status != Unsupported || !strings.Contains(r.Reason, "built without") {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
}
