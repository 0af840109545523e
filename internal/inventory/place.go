package inventory

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// Place is the position of a device in the machine, as Linux reports it in /sys. Fields are
// empty if they are not known.
type Place struct {
	Link      string `json:"link,omitempty"`       // the PCI link to the host, such as "16.0 GT/s PCIe x16"
	NUMANodes string `json:"numa_nodes,omitempty"` // the NUMA nodes of a host ("0-1"), or the one of a device ("0")
}

// findPlace finds a device in sys, which is /sys or a copy for tests.
func findPlace(sys string, p core.Properties) Place {
	read := func(path ...string) string {
		content, err := os.ReadFile(filepath.Join(append([]string{sys}, path...)...))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(content))
	}
	if p.ID == core.CPU {
		return Place{NUMANodes: read("devices/system/node/online")}
	}
	if p.PCI == "" || strings.ContainsAny(p.PCI, "/\x00") {
		return Place{}
	}
	device := filepath.Join("bus/pci/devices", strings.ToLower(p.PCI))
	link := func(kind string) string {
		speed, width := read(device, kind+"_link_speed"), read(device, kind+"_link_width")
		if speed == "" || strings.HasPrefix(speed, "Unknown") || width == "" || width == "0" {
			return ""
		}
		return speed + " x" + width
	}
	found := Place{Link: link("current"), NUMANodes: read(device, "numa_node")}
	if most := link("max"); most != "" && most != found.Link && found.Link != "" {
		found.Link += " (at most " + most + ")" // an idle card may slow the link down to save power
	}
	if found.NUMANodes == "-1" { // the machine has only one node
		found.NUMANodes = ""
	}
	return found
}
