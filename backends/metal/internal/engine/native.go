package engine

import (
	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// DeviceOf returns the id<MTLDevice> of d, which belongs to d.
func DeviceOf(d core.Device) (uintptr, error) {
	own, err := deviceOf("DeviceOf", d)
	if err == nil {
		err = own.IsOpen("DeviceOf")
	}
	if err != nil {
		return 0, err
	}
	return uintptr(own.id), nil
}

// BufferOf returns the id<MTLBuffer> of t, and the offset of the first element in it, in bytes.
func BufferOf(t *core.Tensor) (buffer uintptr, offset int64, err error) {
	const call = "BufferOf"
	if t == nil {
		return 0, 0, errorf(core.ErrInvalid, call, "the tensor is nil")
	}
	b, err := t.Buffer()
	if err != nil {
		return 0, 0, err
	}
	if t.DeviceID().Type != core.DeviceMetal {
		return 0, 0, errorf(core.ErrDevice, call, "%v is not a tensor of Metal", t)
	}
	return b.Memory().Handle, t.Offset(), nil
}

// SharedEventOfEvent returns the id<MTLSharedEvent> that stands for e, an event of a stream of Metal, and the value at
// which e is done. The object belongs to the stream.
func SharedEventOfEvent(e core.Event) (object uintptr, value uint64, err error) {
	const call = "EventOf"
	own, ok := backendkit.UnwrapEvent(e).(*event)
	if !ok {
		return 0, 0, errorf(core.ErrDevice, call, "%T is not an event of a stream of Metal", e)
	}
	own.Queue().Mu.Lock()
	defer own.Queue().Mu.Unlock()
	if own.Queue().gone {
		return 0, 0, errorf(core.ErrClosed, call, "the stream of the event was closed")
	}
	return uintptr(own.Queue().timeline.id), own.Number(), nil
}
