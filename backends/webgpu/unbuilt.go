//go:build !(webgpu && linux && cgo)

package webgpu

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/unbuilt"
	"github.com/dlx-go/dlx/core"
)

// What the API calls where the backend is not built.

func newBackend() core.Backend { return unbuilt.Backend("webgpu") }

func wrap(context.Context, uintptr, int32) (core.Device, error) {
	return nil, unbuilt.Error("webgpu", "Wrap")
}

func deviceOf(core.Device) (uintptr, error) { return 0, unbuilt.Error("webgpu", "DeviceOf") }
