//go:build cgo

package main

// #include "dlx.h"
import "C"

import (
	"context"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

var (
	streams = newHandles[core.Stream]("stream")
	events  = newHandles[core.Event]("event") // an event may be nil: its work is done
)

//export dlxgo_stream_open
func dlxgo_stream_open(device *C.dlx_device, timeout C.int64_t, out **C.dlx_stream, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("stream", unsafe.Pointer(out)); err != nil {
			return err
		}
		d, err := devices.get(unsafe.Pointer(device))
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			s, err := d.NewStream(ctx)
			if err == nil {
				streams.add(unsafe.Pointer(out), s)
			}
			return err
		})
	})
}

//export dlxgo_stream_borrow
func dlxgo_stream_borrow(device *C.dlx_device, number, timeout C.int64_t, out **C.dlx_stream, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("stream", unsafe.Pointer(out)); err != nil {
			return err
		}
		d, err := devices.get(unsafe.Pointer(device))
		if err != nil {
			return err
		}
		native, err := nativeStream(d, int64(number))
		if err != nil {
			return err
		}
		importer, ok := core.As[core.StreamImporter](d)
		if !ok {
			return core.Errorf(core.ErrNotSupported, origin, "", "%v cannot use streams of other libraries", d.ID())
		}
		return within(timeout, func(ctx context.Context) error {
			s, err := importer.ImportStream(ctx, native)
			if err == nil {
				streams.add(unsafe.Pointer(out), s)
			}
			return err
		})
	})
}

// nativeStream returns the handle that the API of d has for the stream that DLPack calls number. The default streams
// have the same numbers in DLPack and in CUDA's and ROCm's drivers.
func nativeStream(d core.Device, number int64) (uintptr, error) {
	n, err := stream.FromDLPack(d.ID().Type, number)
	if err == nil && n.Kind == stream.NoSync {
		err = invalid("the number %d asks for no order, and is not a stream", number)
	}
	return uintptr(number), err
}

//export dlxgo_stream_native
func dlxgo_stream_native(handle *C.dlx_stream, native *C.uintptr_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("native", unsafe.Pointer(native)); err != nil {
			return err
		}
		s, err := streams.get(unsafe.Pointer(handle))
		if err == nil {
			*native = C.uintptr_t(s.Native())
		}
		return err
	})
}

//export dlxgo_stream_synchronize
func dlxgo_stream_synchronize(handle *C.dlx_stream, timeout C.int64_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		s, err := streams.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		return within(timeout, s.Synchronize)
	})
}

//export dlxgo_stream_record
func dlxgo_stream_record(handle *C.dlx_stream, event **C.dlx_event, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("event", unsafe.Pointer(event)); err != nil {
			return err
		}
		s, err := streams.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		recorded, err := s.Record()
		if err == nil {
			events.add(unsafe.Pointer(event), recorded)
		}
		return err
	})
}

//export dlxgo_stream_wait
func dlxgo_stream_wait(handle *C.dlx_stream, event *C.dlx_event, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		s, err := streams.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		awaited, err := events.get(unsafe.Pointer(event))
		if err != nil || awaited == nil {
			return err
		}
		return s.Wait(awaited)
	})
}

//export dlxgo_stream_close
func dlxgo_stream_close(handle *C.dlx_stream, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		s, err := streams.take(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		return s.Close()
	})
}

//export dlxgo_event_done
func dlxgo_event_done(handle *C.dlx_event, done *C.int32_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("done", unsafe.Pointer(done)); err != nil {
			return err
		}
		event, err := events.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		over := true
		if event != nil {
			over, err = event.Done()
		}
		if over {
			*done = 1
		}
		return err
	})
}

//export dlxgo_event_wait
func dlxgo_event_wait(handle *C.dlx_event, timeout C.int64_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		event, err := events.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			if event == nil {
				return nil
			}
			return event.Wait(ctx)
		})
	})
}

//export dlxgo_event_close
func dlxgo_event_close(handle *C.dlx_event, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		_, err := events.take(unsafe.Pointer(handle))
		return err
	})
}
