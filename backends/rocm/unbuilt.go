//go:build !(rocm && linux && cgo)

package rocm

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/unbuilt"
	"github.com/dlx-go/dlx/core"
)

// What the API calls if the backend is not built.

func newBackend() core.Backend { return unbuilt.Backend("rocm") }

func trimPools() {}

func openTimer(context.Context, core.Device, *cudalike.Timer) error {
	return unbuilt.Error("rocm", "NewTimer")
}
