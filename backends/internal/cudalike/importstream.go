package cudalike

import (
	"context"
	"runtime"

	"github.com/dlx-go/dlx/core"
)

// ImportStream imports a stream of the device's primary context, the legacy stream or the calling thread's
// stream. The latter two have fixed numbers. Numbers below 3 without a meaning are no streams, as in DLPack.
//
// The caller must not destroy the stream before it has closed the result: the driver crashes when it gets a
// destroyed stream.
//
// The stream of a thread can be used by that thread only. Calls that enqueue work from another thread fail with
// ErrInvalid, so a goroutine must call runtime.LockOSThread before ImportStream.
//
// ImportStream fails with ErrInvalid for a stream of another context. For the stream of a thread it fails with
// ErrNotSupported if the driver has no IDs of streams.
func (d *device) ImportStream(ctx context.Context, native uintptr) (core.Stream, error) {
	const call = "ImportStream"
	if err := d.Gate.Enter(ctx); err != nil {
		return nil, err
	}
	if err := d.Hold(call); err != nil {
		return nil, err
	}
	defer d.Drop()
	q := &queue{device: d, raw: native}
	switch b := d.backend; {
	case native == b.LegacyStream:
	case native < 3 && (native == 0 || native != b.ThreadStream):
		return nil, d.Errorf(core.ErrInvalid, call, "%d is not a stream: %d stands for the legacy stream", native, b.LegacyStream)
	case native == b.ThreadStream:
		id, s := d.context.StreamID(native)
		if err := d.check(s, "the ID of the thread's stream"); err != nil {
			return nil, err
		}
		q.thread = id
	default:
		of, s := d.context.StreamContext(native)
		if err := d.check(s, "the context of the stream %#x", native); err != nil {
			return nil, err
		}
		if of != d.context.ID() {
			return nil, d.Errorf(core.ErrInvalid, call, "the stream does not belong to the primary context of %v", d.ID())
		}
	}
	return d.addStream(call, func() (*queue, error) { return q, nil })
}

// lockThread does nothing, unless q is the stream of a thread. Then it keeps the goroutine on its thread until
// unlockThread is called, and fails with ErrInvalid on another thread than the stream's.
func (q *queue) lockThread(call string) error {
	if q.thread == 0 {
		return nil
	}
	runtime.LockOSThread()
	if id, _ := q.device.context.StreamID(q.raw); id != q.thread { // the ID is 0 if the driver fails
		runtime.UnlockOSThread()
		return q.device.Errorf(core.ErrInvalid, call, "the stream belongs to the thread that imported it, and this is another thread: call runtime.LockOSThread before ImportStream")
	}
	return nil
}

func (q *queue) unlockThread() {
	if q.thread != 0 {
		runtime.UnlockOSThread()
	}
}
