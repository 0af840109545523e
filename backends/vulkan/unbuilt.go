//go:build !(vulkan && linux && cgo)

package vulkan

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/unbuilt"
	"github.com/dlx-go/dlx/core"
)

// What the API calls where the backend is not built.

const name = "vulkan"

type options struct{ validation, strict bool }

func newBackend(options) core.Backend { return unbuilt.Backend(name) }

func messages(uint64) (count uint64, texts []string) { return 0, nil }

func keepVulkanGo() {}

func wrap(context.Context, Handles) (core.Device, error) { return nil, unbuilt.Error(name, "Wrap") }

func importBuffer(core.Device, Buffer, core.Spec, core.Owner) (*core.Tensor, error) {
	return nil, unbuilt.Error(name, "ImportBuffer")
}

func importTimeline(core.Device, uint64) (core.Semaphore, error) {
	return nil, unbuilt.Error(name, "ImportTimeline")
}

func bufferOf(*core.Tensor) (b Buffer, offset int64, err error) {
	return b, 0, unbuilt.Error(name, "BufferOf")
}
