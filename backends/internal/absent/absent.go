// Package absent has the backend of a build that lacks an API: it has no devices and says why.
package absent

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// Backend fails with ErrNotSupported in all calls that return an error.
type Backend struct {
	Type core.DeviceType
	API  string // "OpenCL"
}

var _ core.Backend = Backend{}

// Name is the name of the backend that is missing.
func (b Backend) Name() string { return b.Type.BackendName() }

// Probe gives the reason.
func (b Backend) Probe(context.Context) core.Probe {
	return core.Probe{Reason: b.Unsupported("Probe").Error()}
}

// Devices fails.
func (b Backend) Devices(context.Context) ([]core.Properties, error) {
	return nil, b.Unsupported("Devices")
}

// Open fails.
func (b Backend) Open(context.Context, core.DeviceID) (core.Device, error) {
	return nil, b.Unsupported("Open")
}

// Unsupported is the error of a call. It names the build tag that is missing.
func (b Backend) Unsupported(call string) error {
	return core.Errorf(core.ErrNotSupported, b.Name(), call, "this build has no %s: build with the tag %s and cgo, on Linux", b.API, b.Name())
}
