//go:build opencl && linux && cgo

package opencl

import (
	"github.com/dlx-go/dlx/backends/internal/clcore"
	"github.com/dlx-go/dlx/core"
)

func newBackend() core.Backend { return clcore.OpenCL.Backend() }

func handlesOf(d core.Device) (Handles, error) {
	h, err := clcore.OpenCL.HandlesOf(d)
	return Handles(h), err
}

func wrapContext(context, deviceID uintptr) (core.Device, error) {
	return clcore.OpenCL.Wrap(context, deviceID)
}

func memOf(t *core.Tensor) (mem uintptr, offset int64, err error) { return clcore.MemOf(t) }

func subBuffer(t *core.Tensor) (*core.Tensor, error) { return clcore.SubBuffer(t) }

func importEvent(d core.Device, event uintptr) (core.Event, error) {
	return clcore.OpenCL.ImportEvent(d, event)
}
