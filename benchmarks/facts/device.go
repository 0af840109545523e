package facts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/inventory"
)

// Simulated reports whether a device only stands for one, in tests. Such a device has no speed of its own.
func Simulated(p core.Properties) bool { return strings.HasPrefix(p.Name, "dlx simulated") }

// software are words in the names of drivers that compute on the CPU.
var software = []string{"llvmpipe", "lavapipe", "swiftshader", "pocl", "portable computing language", "softpipe"}

// Software reports whether the driver of a device computes on the CPU.
func Software(p core.Properties) bool {
	names := strings.ToLower(p.Name + " " + p.Driver)
	return slices.ContainsFunc(software, func(word string) bool { return strings.Contains(names, word) })
}

func describe(d inventory.Device) Device {
	return Device{Device: d, Simulated: Simulated(d.Properties), Software: Software(d.Properties), Bus: busPeak(d.Link)}
}

// busPeak computes what a PCI link carries in one direction, from text such as "2.5 GT/s PCIe x16 (at most 16.0 GT/s PCIe
// x16)". An idle link may be slow, and speeds up under load: the most that it can do counts. Headers of packets are not
// taken off, which are 5 to 20 % of the peak.
//
// Source: PCI Express base specification: 8b/10b coding up to 5 GT/s, 128b/130b up to 32 GT/s, and 1b/1b with 242 of
// 256 bytes of a flit from 64 GT/s on.
func busPeak(link string) *Peak {
	if _, most, ok := strings.Cut(link, "(at most "); ok {
		link = strings.TrimSuffix(most, ")")
	}
	fields := strings.Fields(link)
	if len(fields) < 3 || fields[1] != "GT/s" {
		return nil
	}
	rate, err := strconv.ParseFloat(fields[0], 64)
	lanes, laneErr := strconv.Atoi(strings.TrimPrefix(fields[len(fields)-1], "x"))
	if err != nil || laneErr != nil || !(rate > 0) || rate > 1000 || lanes <= 0 || lanes > 32 {
		return nil
	}
	part, coding := 8.0/10, "8b/10b"
	switch {
	case rate > 32:
		part, coding = 242.0/256, "flits of 256 bytes"
	case rate > 5:
		part, coding = 128.0/130, "128b/130b"
	}
	return &Peak{GBPerSecond: rate * part / 8 * float64(lanes), Source: fmt.Sprintf("%s, %s", link, coding)}
}

// PeakOf returns the least of the peaks on the way of a transfer between from and to, nil if none is known. Within one device
// it is that of its memory, where each byte is read and written: half of it.
func (m *Machine) PeakOf(from, to []core.DeviceID) *Peak {
	if m == nil {
		return nil
	}
	var least *Peak
	lower := func(p *Peak) {
		if p != nil && (least == nil || p.GBPerSecond < least.GBPerSecond) {
			least = p
		}
	}
	if len(from) != 1 || len(to) != 1 {
		return nil // several devices have several buses
	}
	a, b := m.Find(from[0]), m.Find(to[0])
	if a == nil || b == nil || a.Simulated || b.Simulated {
		return nil
	}
	if from[0] == to[0] || (a.Software && b.Software) || (a.Software && to[0] == core.CPU) || (from[0] == core.CPU && b.Software) {
		memory := a.Memory
		if a.Software || from[0] == core.CPU {
			memory = m.MemoryPeak
		}
		if memory != nil {
			lower(&Peak{GBPerSecond: memory.GBPerSecond / 2, Source: "half of the memory's " + memory.Source + ", since each byte is read and written"})
		}
		return least
	}
	for _, d := range []*Device{a, b} {
		if d.ID != core.CPU {
			lower(d.Bus)
		}
	}
	return least
}
