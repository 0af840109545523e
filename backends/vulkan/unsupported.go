//go:build vulkan && !(linux && cgo)

package vulkan

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

type backend struct{}

var _ core.Backend = backend{}

// Option changes nothing in this build.
type Option struct{}

// WithValidation changes nothing in this build.
func WithValidation() Option { return Option{} }

// New returns a backend that has no devices and says why.
func New(...Option) core.Backend { return backend{} }

func (backend) Name() string { return core.DeviceVulkan.BackendName() }

func (backend) Probe(context.Context) core.Probe {
	return core.Probe{Reason: unsupported("Probe").Error()}
}

func (backend) Devices(context.Context) ([]core.Properties, error) {
	return nil, unsupported("Devices")
}

func (backend) Open(context.Context, core.DeviceID) (core.Device, error) {
	return nil, unsupported("Open")
}

// Messages returns none.
func Messages(uint64) (count uint64, texts []string) { return 0, nil }

// KeepVulkanGo does nothing.
func KeepVulkanGo() {}

// Wrap fails with core.ErrNotSupported.
func Wrap(context.Context, Handles) (core.Device, error) { return nil, unsupported("Wrap") }

// BufferOf fails with core.ErrNotSupported.
func BufferOf(*core.Tensor) (b Buffer, offset int64, err error) {
	return b, 0, unsupported("BufferOf")
}

func unsupported(call string) error {
	return core.Errorf(core.ErrNotSupported, "vulkan", call, "this build has no Vulkan: build with the tag vulkan and cgo, on Linux")
}
