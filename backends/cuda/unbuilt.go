//go:build !(cuda && linux && cgo)

package cuda

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/unbuilt"
	"github.com/dlx-go/dlx/core"
)

// The functions that the API calls if the backend is not built.

const name = "cuda"

func newBackend() core.Backend { return unbuilt.Backend(name) }

func trimPools() {}

func openTimer(context.Context, core.Device, *cudalike.Timer) error {
	return unbuilt.Error(name, "NewTimer")
}

func registerGLBuffer(func(func()), core.Device, uint32, cudalike.GLAccess, *cudalike.GLBuffer) error {
	return unbuilt.Error(name, "RegisterGLBuffer")
}
