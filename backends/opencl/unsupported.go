//go:build opencl && !(linux && cgo)

package opencl

import (
	"github.com/dlx-go/dlx/backends/internal/absent"
	"github.com/dlx-go/dlx/core"
)

var none = absent.Backend{Type: core.DeviceOpenCL, API: "OpenCL"}

// New returns a backend that has no devices and says why.
func New() core.Backend { return none }

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

func unsupported(call string) error { return none.Unsupported(call) }
