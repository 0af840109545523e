//go:build !(metal && darwin)

package metal

import (
	"github.com/dlx-go/dlx/backends/internal/unbuilt"
	"github.com/dlx-go/dlx/core"
)

// What the API calls where the backend is not built.

const name = "metal"

func newBackend() core.Backend { return unbuilt.Backend(name) }

func deviceOf(core.Device) (uintptr, error) { return 0, unbuilt.Error(name, "DeviceOf") }

func bufferOf(*core.Tensor) (buffer uintptr, offset int64, err error) {
	return 0, 0, unbuilt.Error(name, "BufferOf")
}

func eventOf(core.Event) (object uintptr, value uint64, err error) {
	return 0, 0, unbuilt.Error(name, "EventOf")
}

func sharedEventOf(core.Semaphore) (uintptr, error) { return 0, unbuilt.Error(name, "SharedEventOf") }

func importSharedEvent(core.Device, uintptr) (core.Semaphore, error) {
	return nil, unbuilt.Error(name, "ImportSharedEvent")
}
