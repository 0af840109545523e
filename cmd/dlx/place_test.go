package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestWhereADeviceIsInTheMachine(t *testing.T) {
	sys := t.TempDir()
	for path, content := range map[string]string{
		"devices/system/node/online":                      "0-1",
		"bus/pci/devices/0000:65:00.0/current_link_speed": "2.5 GT/s PCIe",
		"bus/pci/devices/0000:65:00.0/current_link_width": "16",
		"bus/pci/devices/0000:65:00.0/max_link_speed":     "16.0 GT/s PCIe",
		"bus/pci/devices/0000:65:00.0/max_link_width":     "16",
		"bus/pci/devices/0000:65:00.0/numa_node":          "1",
		"bus/pci/devices/0000:af:00.0/current_link_speed": "16.0 GT/s PCIe",
		"bus/pci/devices/0000:af:00.0/current_link_width": "8",
		"bus/pci/devices/0000:af:00.0/max_link_speed":     "16.0 GT/s PCIe",
		"bus/pci/devices/0000:af:00.0/max_link_width":     "8",
		"bus/pci/devices/0000:af:00.0/numa_node":          "-1",
		"bus/pci/devices/0000:b0:00.0/current_link_speed": "Unknown",
		"bus/pci/devices/0000:b0:00.0/current_link_width": "0",
	} {
		path = filepath.Join(sys, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	card := core.DeviceID{Type: core.DeviceCUDA}
	for _, c := range []struct {
		p    core.Properties
		want place
	}{
		{core.Properties{ID: core.CPU}, place{NUMANodes: "0-1"}},
		{core.Properties{ID: card, PCI: "0000:65:00.0"}, place{"2.5 GT/s PCIe x16 (at most 16.0 GT/s PCIe x16)", "1"}},
		{core.Properties{ID: card, PCI: "0000:AF:00.0"}, place{"16.0 GT/s PCIe x8", ""}},
		{core.Properties{ID: card, PCI: "0000:b0:00.0"}, place{}},
		{core.Properties{ID: card, PCI: "0000:ff:00.0"}, place{}},
		{core.Properties{ID: card, PCI: "../0000:65:00.0"}, place{}},
		{core.Properties{ID: card}, place{}},
	} {
		if got := findPlace(sys, c.p); got != c.want {
			t.Errorf("%v %q: %+v, want %+v", c.p.ID, c.p.PCI, got, c.want)
		}
	}
}

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
	d := deviceResult{place: place{"16.0 GT/s PCIe x8", "1"}, Properties: core.Properties{Queues: 4, ComputeUnits: 108, FreeMemory: 2e9}}
	var text strings.Builder
	devicesResult{Backends: []backendResult{{Name: "x", Devices: []deviceResult{d}}}}.writeText(&text)
	for _, want := range []string{"link\t16.0 GT/s PCIe x8", "numa nodes\t1", "compute units\t108", "queues\t4", "free memory\t2.00 GB"} {
		if !strings.Contains(text.String(), want+"\n") {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}
