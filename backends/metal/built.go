//go:build metal && darwin

package metal

import (
	"github.com/dlx-go/dlx/backends/metal/internal/engine"
	"github.com/dlx-go/dlx/backends/metal/internal/objc"
	"github.com/dlx-go/dlx/core"
)

func newBackend() core.Backend { return engine.New(objc.Open) }

func deviceOf(d core.Device) (uintptr, error) { return engine.DeviceOf(d) }

func bufferOf(t *core.Tensor) (buffer uintptr, offset int64, err error) { return engine.BufferOf(t) }

func eventOf(e core.Event) (object uintptr, value uint64, err error) {
	return engine.SharedEventOfEvent(e)
}

func sharedEventOf(s core.Semaphore) (uintptr, error) { return engine.SharedEventOf(s) }

func importSharedEvent(d core.Device, object uintptr) (core.Semaphore, error) {
	return engine.ImportSharedEvent(d, object)
}
