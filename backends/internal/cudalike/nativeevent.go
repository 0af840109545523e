package cudalike

import (
	"sync"

	"github.com/dlx-go/dlx/core"
)

const nativeEvent = "an event that another library uses"

// WaitNative makes later work of the stream wait for an event of the driver, a CUevent or a hipEvent_t, which another
// library has recorded. The event may be destroyed afterwards.
func (q *queue) WaitNative(event uintptr) error {
	const call = "WaitNative"
	if event == 0 {
		return q.device.Errorf(core.ErrInvalid, call, "the event is NULL")
	}
	return q.enqueue(call, func() error {
		return q.device.check(q.device.context.WaitEvent(q.raw, event), nativeEvent)
	})
}

// RecordNative returns an event of the driver that is done when all work enqueued before is done, for another library.
// The caller calls release before the device is closed: it destroys the event. Calling it again does nothing.
func (q *queue) RecordNative() (event uintptr, release func(), err error) {
	d := q.device
	err = q.enqueue("RecordNative", func() error {
		raw, s := d.context.NewEvent(false)
		if err := d.check(s, nativeEvent); err != nil {
			return err
		}
		if err := d.check(d.context.RecordEvent(raw, q.raw), nativeEvent); err != nil {
			d.context.DestroyEvent(raw)
			return err
		}
		event = raw
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	return event, sync.OnceFunc(func() { d.context.DestroyEvent(event) }), nil
}
