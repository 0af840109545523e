// Package unbuilt stands for the backends that a program was built without. Their API exists in every build,
// and its functions fail and say what is missing.
package unbuilt

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/buildtag"
)

// Error returns the error of a call of a backend that was not built. It wraps core.ErrNotSupported. name is
// that of the backend and of its build tag.
func Error(name, call string) error {
	return core.Errorf(core.ErrNotSupported, name, call, "%s", buildtag.Missing(name))
}

// Backend is a backend without devices. Its value is its name.
type Backend string

var _ core.Backend = Backend("")

// Name returns the backend's name.
func (b Backend) Name() string { return string(b) }

// Probe returns the reason why the backend was not built.
func (b Backend) Probe(context.Context) core.Probe {
	return core.Probe{Reason: Error(string(b), "Probe").Error()}
}

// Devices fails with core.ErrNotSupported.
func (b Backend) Devices(context.Context) ([]core.Properties, error) {
	return nil, Error(string(b), "Devices")
}

// Open fails with core.ErrNotSupported.
func (b Backend) Open(context.Context, core.DeviceID) (core.Device, error) {
	return nil, Error(string(b), "Open")
}

// Is reports whether b stands for a backend that was not built.
func Is(b core.Backend) bool {
	_, ok := b.(Backend)
	return ok
}
