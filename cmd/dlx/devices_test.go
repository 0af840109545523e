package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestDevicesListsWhatIsThereAndWhyTheRestIsNot(t *testing.T) {
	r := decode[devicesResult](t, dlx(t, "devices", "--json"), "devices")
	if len(r.Backends) != 3 {
		t.Fatalf("%d backends, want 3", len(r.Backends))
	}
	host, simulated, missing := r.Backends[0], r.Backends[1], r.Backends[2]
	if !host.Available || len(host.Devices) != 1 || host.Devices[0].ID != core.CPU || !slices.Contains(host.Devices[0].Capabilities, "host_memory") {
		t.Errorf("cpu: %+v", host)
	}
	if len(simulated.Devices) != 2 || simulated.Devices[1].ID.String() != "ext_dev:1" {
		t.Errorf("ext_dev: %+v", simulated)
	}
	if missing.Available || missing.Reason != whyDriverless || missing.Devices == nil || len(missing.Devices) != 0 {
		t.Errorf("vulkan: %+v", missing)
	}

	text := dlx(t, "devices").stdout
	for _, want := range []string{"BACKEND cpu", "DEVICE cpu", "256 B", "import_pointer", "ext_dev:1", "BACKEND vulkan", "not available: " + whyDriverless} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestDevicesOfAProgramWithoutBackends(t *testing.T) {
	o := dlxWith(t, t.Context(), nil, "devices", "--json")
	if r := decode[devicesResult](t, o, "devices"); r.Backends == nil || len(r.Backends) != 0 {
		t.Errorf("backends %v, want an empty list", r.Backends)
	}
}
