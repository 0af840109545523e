//go:build gl && !(linux && cgo)

package gl

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

type backend struct{}

var _ core.Backend = backend{}

// New returns a backend that has no devices and says why.
func New() core.Backend { return backend{} }

func (backend) Name() string { return core.DeviceGL.BackendName() }

func (backend) Probe(context.Context) core.Probe {
	return core.Probe{Reason: unsupported("Probe").Error()}
}

func (backend) Devices(context.Context) ([]core.Properties, error) {
	return nil, unsupported("Devices")
}

func (backend) Open(context.Context, core.DeviceID) (core.Device, error) {
	return nil, unsupported("Open")
}

// Wrap fails with core.ErrNotSupported.
func Wrap(func(func())) (core.Device, error) { return nil, unsupported("Wrap") }

// NewContext fails with core.ErrNotSupported.
func NewContext(core.DeviceID) (destroy func(), err error) { return nil, unsupported("NewContext") }

func unsupported(call string) error {
	return core.Errorf(core.ErrNotSupported, "gl", call, "this build has no OpenGL: build with the tag gl and cgo, on Linux")
}
