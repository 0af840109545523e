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

// HandlesOf fails with ErrNotSupported.
func HandlesOf(core.Device) (Handles, error) { return Handles{}, unsupported("HandlesOf") }

// Wrap fails with ErrNotSupported.
func Wrap(_, _ uintptr) (core.Device, error) { return nil, unsupported("Wrap") }

// MemOf fails with ErrNotSupported.
func MemOf(*core.Tensor) (mem uintptr, offset int64, err error) { return 0, 0, unsupported("MemOf") }

// SubBuffer fails with ErrNotSupported.
func SubBuffer(*core.Tensor) (*core.Tensor, error) { return nil, unsupported("SubBuffer") }

// EventOf fails with ErrNotSupported.
func EventOf(core.Device, uintptr) (core.Event, error) { return nil, unsupported("EventOf") }

func unsupported(call string) error {
	return core.Errorf(core.ErrNotSupported, "opencl", call, "this build has no OpenCL: build with the tag opencl and cgo, on Linux")
}
