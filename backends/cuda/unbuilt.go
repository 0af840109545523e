//go:build !(cuda && linux && cgo)

package cuda

import (
	"context"
	"time"

	"github.com/dlx-go/dlx/backends/internal/unbuilt"
	"github.com/dlx-go/dlx/core"
)

// What the API calls where the backend is not built.

const name = "cuda"

func newBackend() core.Backend { return unbuilt.Backend(name) }

func endExport(*core.Buffer) error { return unbuilt.Error(name, "EndExport") }

// Without the backend nobody gets one of these but its zero value.
type (
	timer    struct{}
	ipcEvent struct{}
	glBuffer struct{}
)

func newTimer(context.Context, core.Device) (*Timer, error) {
	return nil, unbuilt.Error(name, "NewTimer")
}

func (timer) begin(core.Stream) error { return unbuilt.Error(name, "Start") }

func (timer) end(core.Stream) error { return unbuilt.Error(name, "Stop") }

func (timer) elapsed(context.Context) (time.Duration, error) {
	return 0, unbuilt.Error(name, "Elapsed")
}

func (timer) close() error { return nil }

func newIPCEvent(context.Context, core.Device) (*IPCEvent, error) {
	return nil, unbuilt.Error(name, "NewIPCEvent")
}

func openIPCEvent(context.Context, core.Device, [64]byte) (*IPCEvent, error) {
	return nil, unbuilt.Error(name, "OpenIPCEvent")
}

func (ipcEvent) export() [64]byte { return [64]byte{} }

func (ipcEvent) record(core.Stream) error { return unbuilt.Error(name, "Record") }

func (ipcEvent) waitOn(core.Stream) error { return unbuilt.Error(name, "WaitOn") }

func (ipcEvent) close() error { return nil }

func registerGLBuffer(func(func()), core.Device, uint32, GLAccess) (*GLBuffer, error) {
	return nil, unbuilt.Error(name, "RegisterGLBuffer")
}

func (glBuffer) mapOn(context.Context, core.Stream, core.Spec) (*core.Tensor, error) {
	return nil, unbuilt.Error(name, "Map")
}

func (glBuffer) unmapOn(context.Context, core.Stream) error { return unbuilt.Error(name, "Unmap") }

func (glBuffer) close() error { return nil }
