package inventory

import (
	"os"
	"path/filepath"
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
		want Place
	}{
		{core.Properties{ID: core.CPU}, Place{NUMANodes: "0-1"}},
		{core.Properties{ID: card, PCI: "0000:65:00.0"}, Place{"2.5 GT/s PCIe x16 (at most 16.0 GT/s PCIe x16)", "1"}},
		{core.Properties{ID: card, PCI: "0000:AF:00.0"}, Place{"16.0 GT/s PCIe x8", ""}},
		{core.Properties{ID: card, PCI: "0000:b0:00.0"}, Place{}},
		{core.Properties{ID: card, PCI: "0000:ff:00.0"}, Place{}},
		{core.Properties{ID: card, PCI: "../0000:65:00.0"}, Place{}},
		{core.Properties{ID: card}, Place{}},
	} {
		if got := findPlace(sys, c.p); got != c.want {
			t.Errorf("%v %q: %+v, want %+v", c.p.ID, c.p.PCI, got, c.want)
		}
	}
}
