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

//export dlxgo_tensor_wait_ready
func dlxgo_tensor_wait_ready(tensor *C.dlx_tensor, timeout C.int64_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		return within(timeout, t.WaitReady)
	})
}

//export dlxgo_tensor_wait_idle
func dlxgo_tensor_wait_idle(tensor *C.dlx_tensor, timeout C.int64_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		return within(timeout, t.WaitIdle)
	})
}

//export dlxgo_tensor_ready
func dlxgo_tensor_ready(tensor *C.dlx_tensor, event **C.dlx_event, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("event", unsafe.Pointer(event)); err != nil {
			return err
		}
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		events.add(unsafe.Pointer(event), t.Ready())
		return nil
	})
}

//export dlxgo_tensor_wrote
func dlxgo_tensor_wrote(tensor *C.dlx_tensor, event *C.dlx_event, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		return note(tensor, event, func(t *core.Tensor, b *core.Buffer, done core.Event) error {
			if t.ReadOnly() {
				return core.Errorf(core.ErrReadOnly, origin, "", "the tensor must not be written")
			}
			b.Wrote(done)
			return nil
		})
	})
}

//export dlxgo_tensor_used
func dlxgo_tensor_used(tensor *C.dlx_tensor, event *C.dlx_event, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		return note(tensor, event, func(_ *core.Tensor, b *core.Buffer, done core.Event) error {
			b.Used(done)
			return nil
		})
	})
}

// note calls f with the objects of two handles, and keeps the buffer open during the call.
func note(tensor *C.dlx_tensor, event *C.dlx_event, f func(*core.Tensor, *core.Buffer, core.Event) error) error {
	t, err := tensors.get(unsafe.Pointer(tensor))
	if err != nil {
		return err
	}
	done, err := events.get(unsafe.Pointer(event))
	if err != nil {
		return err
	}
	b, err := t.Buffer()
	if err != nil {
		return err
	}
	if err := b.Retain(); err != nil {
		return err
	}
	defer b.Release()
	return f(t, b, done)
}

//export dlxgo_tensor_handoff
func dlxgo_tensor_handoff(tensor *C.dlx_tensor, from, to *C.dlx_stream, timeout C.int64_t, wait *C.int32_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		source, err := streams.getOptional(unsafe.Pointer(from))
		if err != nil {
			return err
		}
		next, err := streams.getOptional(unsafe.Pointer(to))
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			how, err := stream.Handoff(ctx, t, source, next)
			if err == nil && wait != nil {
				*wait = C.int32_t(how)
			}
			return err
		})
	})
}
