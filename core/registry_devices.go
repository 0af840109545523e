package core

import (
	"context"
	"errors"
)

// Devices returns the devices of all backends, in the order of registration. A backend that
// is not available on this machine contributes no devices and no error; [Registry.Probes]
// returns the reason.
//
// If some backends fail, Devices still returns the devices of the others, and an error that
// joins one [*Error] for each backend that failed. When ctx ends, Devices stops, returns
// what it has found, and includes ctx's error. If r is nil, Devices returns ErrInvalid.
func (r *Registry) Devices(ctx context.Context) ([]Properties, error) {
	if err := r.exists("Devices"); err != nil {
		return nil, err
	}
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

// BackendProbe is the probe of the backend with the given name.
type BackendProbe struct {
	Backend string `json:"backend"`
	Probe
}

// Probes calls [Backend.Probe] of every backend, in the order of registration. It returns none
// if r is nil.
func (r *Registry) Probes(ctx context.Context) []BackendProbe {
	backends := r.Backends()
	probes := make([]BackendProbe, 0, len(backends))
	for _, b := range backends {
		probes = append(probes, BackendProbe{b.Name(), b.Probe(ctx)})
	}
	return probes
}
