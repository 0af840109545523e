//go:build opencl && !(linux && cgo)

package opencl

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

type backend struct{}

var _ core.Backend = backend{}

// New returns a backend that has no devices and says why.
func New() core.Backend { return backend{} }

func (backend) Name() string { return core.DeviceOpenCL.BackendName() }

func (backend) Probe(context.Context) core.Probe {
	return core.Probe{Reason: unsupported("Probe").Error()}
}

func (backend) Devices(context.Context) ([]core.Properties, error) {
	return nil, unsupported("Devices")
}

func (backend) Open(context.Context, core.DeviceID) (core.Device, error) {
	return nil, unsupported("Open")
}

func unsupported(call string) error {
	return core.Errorf(core.ErrNotSupported, "opencl", call, "this build has no OpenCL: build with the tag opencl and cgo, on Linux")
}
