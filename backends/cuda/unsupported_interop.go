//go:build cuda && !(linux && cgo)

package cuda

import (
	"context"
	"time"

	"github.com/dlx-go/dlx/core"
)

// IPCEvent is an event of several processes. There are none in this build.
type IPCEvent struct{}

// NewIPCEvent fails with core.ErrNotSupported.
func NewIPCEvent(context.Context, core.Device) (*IPCEvent, error) {
	return nil, unsupported("NewIPCEvent")
}

// OpenIPCEvent fails with core.ErrNotSupported.
func OpenIPCEvent(context.Context, core.Device, [64]byte) (*IPCEvent, error) {
	return nil, unsupported("OpenIPCEvent")
}

// Handle is zero.
func (*IPCEvent) Handle() [64]byte { return [64]byte{} }

// Record fails with core.ErrNotSupported.
func (*IPCEvent) Record(core.Stream) error { return unsupported("Record") }

// WaitOn fails with core.ErrNotSupported.
func (*IPCEvent) WaitOn(core.Stream) error { return unsupported("WaitOn") }

// Close does nothing.
func (*IPCEvent) Close() error { return nil }

// EndExport fails with core.ErrNotSupported.
func EndExport(*core.Buffer) error { return unsupported("EndExport") }

// GLBuffer is a buffer of OpenGL that CUDA uses. There are none in this build.
type GLBuffer struct{}

// RegisterGLBuffer fails with core.ErrNotSupported.
func RegisterGLBuffer(func(func()), core.Device, uint32, GLAccess) (*GLBuffer, error) {
	return nil, unsupported("RegisterGLBuffer")
}

// Map fails with core.ErrNotSupported.
func (*GLBuffer) Map(context.Context, core.Stream, core.Spec) (*core.Tensor, error) {
	return nil, unsupported("Map")
}

// Unmap fails with core.ErrNotSupported.
func (*GLBuffer) Unmap(context.Context, core.Stream) error { return unsupported("Unmap") }

// Close does nothing.
func (*GLBuffer) Close() error { return nil }

// Timer measures how long work takes. There are none in this build.
type Timer struct{}

// NewTimer fails with core.ErrNotSupported.
func NewTimer(context.Context, core.Device) (*Timer, error) { return nil, unsupported("NewTimer") }

// Start fails with core.ErrNotSupported.
func (*Timer) Start(core.Stream) error { return unsupported("Start") }

// Stop fails with core.ErrNotSupported.
func (*Timer) Stop(core.Stream) error { return unsupported("Stop") }

// Elapsed fails with core.ErrNotSupported.
func (*Timer) Elapsed(context.Context) (time.Duration, error) { return 0, unsupported("Elapsed") }

// Close does nothing.
func (*Timer) Close() error { return nil }
