//go:build !(opencl && linux && cgo)

package opencl

import (
	"github.com/dlx-go/dlx/backends/internal/unbuilt"
	"github.com/dlx-go/dlx/core"
)

// What the API calls where the backend is not built.

const name = "opencl"

func newBackend() core.Backend { return unbuilt.Backend(name) }

func handlesOf(core.Device) (Handles, error) { return Handles{}, unbuilt.Error(name, "HandlesOf") }

func wrapContext(_, _ uintptr) (core.Device, error) { return nil, unbuilt.Error(name, "Wrap") }

func memOf(*core.Tensor) (mem uintptr, offset int64, err error) {
	return 0, 0, unbuilt.Error(name, "MemOf")
}

func subBuffer(*core.Tensor) (*core.Tensor, error) { return nil, unbuilt.Error(name, "SubBuffer") }

func importEvent(core.Device, uintptr) (core.Event, error) {
	return nil, unbuilt.Error(name, "ImportEvent")
}
