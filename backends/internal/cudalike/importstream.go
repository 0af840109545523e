package cudalike

import (
	"context"
	"runtime"

	"github.com/dlx-go/dlx/core"
)

// ImportStream takes a stream of the device's primary context, which is not destroyed as long
// as it is in use here (no driver survives to be asked for another), the number of the legacy
// stream or that of the stream of a thread; as DLPack has it, 0 is not a stream. The last is
// the stream of the thread that imports it: the calls that enqueue something fail with
// ErrInvalid on another, so that a goroutine must hold on to its own by runtime.LockOSThread.
// It fails with ErrInvalid for a stream of another context, and ErrNotSupported for the
// stream of a thread where the driver cannot tell threads apart.
func (d *device) ImportStream(ctx context.Context, native uintptr) (core.Stream, error) {
	const call = "ImportStream"
	if err := d.Gate.Enter(ctx); err != nil {
		return nil, err
	}
	if err := d.hold(call); err != nil {
		return nil, err
	}
	defer d.Drop()
	q := &queue{device: d, raw: native}
	switch native {
	case 0:
		return nil, d.Errorf(core.ErrInvalid, call, "the stream is 0: %d stands for the legacy stream", d.backend.LegacyStream)
	case d.backend.LegacyStream:
	case d.backend.ThreadStream:
		id, s := d.context.StreamID(native)
		if err := d.check(s, "of the thread's stream"); err != nil {
			return nil, err
		}
		q.thread = id
	default:
		of, s := d.context.StreamContext(native)
		if err := d.check(s, "of %#x", native); err != nil {
			return nil, err
		}
		if of != d.context.ID() {
			return nil, d.Errorf(core.ErrInvalid, call, "the stream belongs to another context than the primary one of %v", d.ID())
		}
	}
	return d.addStream(call, func() (*queue, error) { return q, nil })
}

// pin keeps the goroutine on its thread until unpin, if the stream is that of a
// thread, which must be this one.
func (q *queue) pin(call string) error {
	if q.thread == 0 {
		return nil
	}
	runtime.LockOSThread()
	if id, _ := q.device.context.StreamID(q.raw); id != q.thread { // 0 if the driver fails
		runtime.UnlockOSThread()
		return q.device.Errorf(core.ErrInvalid, call, "the stream of a thread is another stream on this thread than where it was imported: lock the goroutine by runtime.LockOSThread before")
	}
	return nil
}

func (q *queue) unpin() {
	if q.thread != 0 {
		runtime.UnlockOSThread()
	}
}
