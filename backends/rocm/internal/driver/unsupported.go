//go:build rocm && linux && cgo

package driver

import (
	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

// What HIP's runtime does not have on Linux. Describe says so, so that nothing calls these functions.

func (c context) ImportTimeline(fd int) (uintptr, cudalike.Status) {
	_ = unix.Close(fd)
	return 0, unsupported("hipImportExternalSemaphore")
}

func (c context) CloseTimeline(uintptr) cudalike.Status {
	return unsupported("hipDestroyExternalSemaphore")
}

func (c context) SignalTimeline(uintptr, uint64, uintptr) cudalike.Status {
	return unsupported("hipSignalExternalSemaphoresAsync")
}

func (c context) WaitTimeline(uintptr, uint64, uintptr) cudalike.Status {
	return unsupported("hipWaitExternalSemaphoresAsync")
}

func (c context) RegisterGLBuffer(uint32, cudalike.GLAccess) (uintptr, cudalike.Status) {
	return 0, unsupported("hipGraphicsGLRegisterBuffer")
}

func (c context) UnregisterGL(uintptr) cudalike.Status {
	return unsupported("hipGraphicsUnregisterResource")
}

func (c context) MapGL(_, _ uintptr) cudalike.Status { return unsupported("hipGraphicsMapResources") }

func (c context) UnmapGL(_, _ uintptr) cudalike.Status {
	return unsupported("hipGraphicsUnmapResources")
}

func (c context) MappedGL(uintptr) (uintptr, int64, cudalike.Status) {
	return 0, 0, unsupported("hipGraphicsResourceGetMappedPointer")
}
