package core

import (
	"context"
	"errors"
)

// Devices lists the devices of all backends, in the order of registration. A backend that
// is not available on this machine has no devices and is no error: [Registry.Probes] tells
// the reason.
//
// If backends fail, the devices of the others are returned all the same, and the error
// joins one [*Error] for each backend that failed, which names it. Once ctx has ended, no
// more backends are asked, and the error contains ctx's.
func (r *Registry) Devices(ctx context.Context) ([]Properties, error) {
	var devices []Properties
	var failed []error
	for _, b := range r.Backends() {
		if err := ctx.Err(); err != nil {
			return devices, errors.Join(append(failed, err)...)
		}
		if !b.Probe(ctx).Available {
			continue
		}
		found, err := b.Devices(ctx)
		devices = append(devices, found...)
		if err != nil {
			failed = append(failed, &Error{Backend: b.Name(), Call: "Devices", Err: err})
		}
	}
	return devices, errors.Join(failed...)
}

// BackendProbe is what the backend of the given name found out.
type BackendProbe struct {
	Backend string `json:"backend"`
	Probe
}

// Probes asks every backend, in the order of registration, whether it can be used here
// and, where not, why.
func (r *Registry) Probes(ctx context.Context) []BackendProbe {
	backends := r.Backends()
	probes := make([]BackendProbe, 0, len(backends))
	for _, b := range backends {
		probes = append(probes, BackendProbe{b.Name(), b.Probe(ctx)})
	}
	return probes
}
