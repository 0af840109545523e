// Package inventory lists what a program can reach on this machine: its backends, their devices, and why others are
// missing.
package inventory

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/buildtag"
)

// Backend is what one backend found on this machine.
type Backend struct {
	Name    string `json:"name"`
	BuiltIn bool   `json:"built_in"` // if false, only the name and the reason are known
	core.Probe
	Error   string   `json:"error,omitempty"` // why an available backend could not list its devices
	Devices []Device `json:"devices"`
}

// Device is a device that can be opened.
type Device struct {
	core.Properties
	Capabilities []string        `json:"capabilities"`
	SameHardware []core.DeviceID `json:"same_hardware,omitzero"` // the IDs of this device under other APIs; nil if nobody looked
	Place
}

// List lists the backends of a registry with their devices, and then those that are not in this build.
func List(ctx context.Context, registry *core.Registry) []Backend {
	list := []Backend{}
	var found []core.Properties
	for _, b := range registry.Backends() {
		one := Backend{Name: b.Name(), BuiltIn: true, Probe: b.Probe(ctx), Devices: []Device{}}
		properties, err := b.Devices(ctx)
		if err != nil && one.Available {
			one.Error = err.Error()
		}
		for _, p := range properties {
			one.Devices = append(one.Devices, Describe(p))
		}
		found = append(found, properties...)
		list = append(list, one)
	}
	for _, b := range list {
		for i := range b.Devices {
			b.Devices[i].SameHardware = sameHardware(b.Devices[i].ID, found)
		}
	}
	for _, name := range Missing(registry) {
		list = append(list, Backend{Name: name, Probe: core.Probe{Reason: NotBuilt(name)}, Devices: []Device{}})
	}
	return list
}

// Describe describes one device, without the others that are the same hardware.
func Describe(p core.Properties) Device {
	return Device{Properties: p, Capabilities: p.Capabilities.Names(), Place: findPlace("/sys", p)}
}

// sameHardware returns the IDs of other devices that are the same hardware as id.
func sameHardware(id core.DeviceID, all []core.Properties) []core.DeviceID {
	others := []core.DeviceID{}
	for _, group := range backendkit.GroupByPhysicalDevice(all) {
		if slices.ContainsFunc(group, func(p core.Properties) bool { return p.ID == id }) {
			for _, p := range group {
				if p.ID != id {
					others = append(others, p.ID)
				}
			}
		}
	}
	return others
}

// Missing returns the names of the backends that are not in this build.
func Missing(registry *core.Registry) []string {
	return slices.DeleteFunc(all.Tags(), func(name string) bool {
		_, err := registry.Backend(name)
		return err == nil
	})
}

// NotBuilt returns the reason why this program lacks a backend, with the tag that adds it.
func NotBuilt(backend string) string { return buildtag.Missing(backend) }
