//go:build cgo

package main

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
)

// inventory is what `dlx devices --json` has in the fields of the same names.
type inventory struct {
	Backends []backend `json:"backends"`
}

// backend is what one backend found on this machine.
type backend struct {
	Name    string `json:"name"`
	BuiltIn bool   `json:"built_in"` // if false, only the name and the reason are known
	core.Probe
	Error   string   `json:"error,omitempty"` // why an available backend could not list its devices
	Devices []device `json:"devices"`
}

// device is a device that can be opened.
type device struct {
	core.Properties
	Capabilities []string        `json:"capabilities"`
	SameHardware []core.DeviceID `json:"same_hardware,omitempty"` // the IDs of this device under other APIs
}

func describeDevice(p core.Properties) device {
	return device{Properties: p, Capabilities: p.Capabilities.Names()}
}

// backendsOf lists the backends of a registry with their devices, and those that are not in this build.
func backendsOf(ctx context.Context, r *core.Registry) inventory {
	list := inventory{Backends: []backend{}}
	var found []core.Properties
	for _, b := range r.Backends() {
		one := backend{Name: b.Name(), BuiltIn: true, Probe: b.Probe(ctx), Devices: []device{}}
		properties, err := b.Devices(ctx)
		if err != nil && one.Available {
			one.Error = err.Error()
		}
		for _, p := range properties {
			one.Devices = append(one.Devices, describeDevice(p))
		}
		found = append(found, properties...)
		list.Backends = append(list.Backends, one)
	}
	for _, group := range core.GroupByPhysicalDevice(found) {
		for _, b := range list.Backends {
			for i := range b.Devices {
				b.Devices[i].noteHardware(group)
			}
		}
	}
	for _, name := range all.Tags() {
		if _, err := r.Backend(name); err != nil {
			list.Backends = append(list.Backends, backend{Name: name, Probe: core.Probe{Reason: "libdlx was built without the tag " + name}, Devices: []device{}})
		}
	}
	return list
}

// noteHardware notes the other devices of a group that is the same hardware, if d is one of the group.
func (d *device) noteHardware(group []core.Properties) {
	if !slices.ContainsFunc(group, func(p core.Properties) bool { return p.ID == d.ID }) {
		return
	}
	for _, p := range group {
		if p.ID != d.ID {
			d.SameHardware = append(d.SameHardware, p.ID)
		}
	}
}
