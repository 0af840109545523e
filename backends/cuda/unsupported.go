//go:build cuda && !(linux && cgo)

package cuda

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

type backend struct{}

var _ core.Backend = backend{}

// New returns a backend that has no devices and says why.
func New() core.Backend { return backend{} }

func (backend) Name() string { return core.DeviceCUDA.BackendName() }

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
	return core.Errorf(core.ErrNotSupported, "cuda", call, "this build has no CUDA: build with the tag cuda and cgo, on Linux")
}
