package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// place is where a device is in the machine, as Linux shows it under /sys; empty where
// that is not known.
type place struct {
	Link      string `json:"link,omitempty"`       // the PCI link to the host: "16.0 GT/s PCIe x16"
	NUMANodes string `json:"numa_nodes,omitempty"` // those of a host, or the one that a device is at: "0", "0-1"
}

// findPlace looks a device up in the system's folder sys.
func findPlace(sys string, p core.Properties) place {
	read := func(path ...string) string {
		content, err := os.ReadFile(filepath.Join(append([]string{sys}, path...)...))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(content))
	}
	if p.ID == core.CPU {
		return place{NUMANodes: read("devices/system/node/online")}
	}
	if p.PCI == "" || strings.ContainsAny(p.PCI, "/\x00") {
		return place{}
	}
	device := filepath.Join("bus/pci/devices", strings.ToLower(p.PCI))
	link := func(kind string) string {
		speed, width := read(device, kind+"_link_speed"), read(device, kind+"_link_width")
		if speed == "" || strings.HasPrefix(speed, "Unknown") || width == "" || width == "0" {
			return ""
		}
		return speed + " x" + width
	}
	found := place{Link: link("current"), NUMANodes: read(device, "numa_node")}
	if most := link("max"); most != "" && most != found.Link && found.Link != "" {
		found.Link += " (at most " + most + ")" // a card without work may save power by a slow link
	}
	if found.NUMANodes == "-1" { // the machine has but one
		found.NUMANodes = ""
	}
	return found
}
