// Package facts describes the machine that a benchmark ran on: its processors, its devices, their clocks before and after,
// and the most that a bus or a memory can carry. A field that cannot be determined is empty.
package facts

import (
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/inventory"
)

// Machine is the machine, as far as results depend on it.
type Machine struct {
	Platform  string  `json:"platform"`            // "linux/amd64"
	System    string  `json:"system,omitempty"`    // "Debian GNU/Linux 12 (bookworm)"
	Kernel    string  `json:"kernel,omitempty"`    // "6.1.0-18-amd64"
	Virtual   string  `json:"virtual,omitempty"`   // the hypervisor, such as "kvm"
	Container string  `json:"container,omitempty"` // what runs the container, such as "docker"
	CPU       string  `json:"cpu,omitempty"`
	CPUs      int     `json:"cpus"`               // that Go may use at a time
	Affinity  string  `json:"affinity,omitempty"` // the CPUs that the process may run on, such as "0-7,16"
	NUMANodes string  `json:"numa_nodes,omitempty"`
	Caches    []Cache `json:"caches,omitempty"`
	Memory    int64   `json:"memory,omitempty"`   // bytes
	Governor  string  `json:"governor,omitempty"` // of the CPUs' clocks, such as "performance"
	// MemoryPeak is the theoretical bandwidth of the host's memory.
	MemoryPeak *Peak `json:"memory_peak,omitempty"`

	Load   []float64 `json:"load,omitempty"` // averages of the last 1, 5 and 15 minutes before the run
	Before Reading   `json:"before,omitzero"`
	After  Reading   `json:"after,omitzero"`

	Devices  []Device          `json:"devices"`
	Versions map[string]string `json:"versions,omitempty"` // of what results depend on: "Go", "glibc", "NumPy", "libcuda"
}

// Cache is a cache of the host.
type Cache struct {
	Level int    `json:"level"`
	Kind  string `json:"kind"` // "data", "instruction" or "unified"
	Bytes int64  `json:"bytes"`
}

// Reading is the state of the host at one time.
type Reading struct {
	Time  time.Time `json:"time"`
	MHz   []float64 `json:"mhz,omitempty"`   // the clock of each CPU
	Steal float64   `json:"steal,omitempty"` // seconds that a hypervisor took from all CPUs since the system started
}

// Device is a device that was measured or could not be.
type Device struct {
	inventory.Device
	Missing   string        `json:"missing,omitempty"`   // why it is not there; then only the ID is known
	Simulated bool          `json:"simulated,omitempty"` // it stands for a device in tests, and has no speed of its own
	Software  bool          `json:"software,omitempty"`  // its driver computes on the CPU
	Memory    *Peak         `json:"memory_peak,omitempty"`
	Bus       *Peak         `json:"bus_peak,omitempty"` // between it and the host, in one direction
	Before    DeviceReading `json:"before,omitzero"`
	After     DeviceReading `json:"after,omitzero"`
}

// Peak is the most that a bus or a memory can carry.
type Peak struct {
	GBPerSecond float64 `json:"gb_per_s"` // 10^9 bytes a second
	Source      string  `json:"source"`   // how it was computed: "PCIe 16.0 GT/s x16, 128b/130b"
}

// DeviceReading is the state of a device at one time.
type DeviceReading struct {
	ComputeMHz int      `json:"compute_mhz,omitempty"`
	MemoryMHz  int      `json:"memory_mhz,omitempty"`
	Celsius    int      `json:"celsius,omitempty"`
	Watts      float64  `json:"watts,omitempty"`
	Link       string   `json:"link,omitempty"`      // the PCI link now
	Throttled  []string `json:"throttled,omitempty"` // why the clocks are held down: "power cap", "thermal"
	Reason     string   `json:"reason,omitempty"`    // why nothing is known
}

// Find returns the device with an ID, nil if it is not listed.
func (m *Machine) Find(id core.DeviceID) *Device {
	if m == nil {
		return nil
	}
	for i := range m.Devices {
		if m.Devices[i].ID == id {
			return &m.Devices[i]
		}
	}
	return nil
}
