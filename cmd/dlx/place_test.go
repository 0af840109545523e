package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/inventory"
)

func TestDevicesShowsWhatTheHostHas(t *testing.T) {
	host := decode[devicesResult](t, dlx(t, "devices", "--json"), "devices").Backends[0].Devices[0]
	if host.ComputeUnits != runtime.NumCPU() {
		t.Errorf("%d compute units", host.ComputeUnits)
	}
	if runtime.GOOS == "linux" && (host.FreeMemory <= 0 || host.FreeMemory > host.TotalMemory) {
		t.Errorf("%d bytes free of %d", host.FreeMemory, host.TotalMemory)
	}
	if text := dlx(t, "devices").stdout; !strings.Contains(text, "compute units  "+count(runtime.NumCPU())+"\n") {
		t.Errorf("no compute units in\n%s", text)
	}
	d := inventory.Device{Place: inventory.Place{Link: "16.0 GT/s PCIe x8", NUMANodes: "1"}, Properties: core.Properties{Queues: 4, ComputeUnits: 108, FreeMemory: 2e9}}
	var text strings.Builder
	devicesResult{Backends: []inventory.Backend{{Name: "x", Devices: []inventory.Device{d}}}}.writeText(&text)
	for _, want := range []string{"link\t16.0 GT/s PCIe x8", "numa nodes\t1", "compute units\t108", "queues\t4", "free memory\t2.00 GB"} {
		if !strings.Contains(text.String(), want+"\n") {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}
