//go:build vulkan && !(linux && cgo)

package vulkan

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/absent"
	"github.com/dlx-go/dlx/core"
)

var none = absent.Backend{Type: core.DeviceVulkan, API: "Vulkan"}

// Option changes nothing in this build.
type Option struct{}

// WithValidation changes nothing in this build.
func WithValidation() Option { return Option{} }

// New returns a backend that has no devices and says why.
func New(...Option) core.Backend { return none }

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

func unsupported(call string) error { return none.Unsupported(call) }
