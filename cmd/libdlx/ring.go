//go:build cgo

package main

// #include "entry.h"
import "C"

import (
	"context"
	"errors"
	"io"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/share"
)

var (
	publishers    = newHandles[publisher]("publisher")
	subscriptions = newHandles[subscription]("subscription")
	frames        = newHandles[*frame]("frame")
)

// frame is a frame that is released once, and not while another thread makes a tensor of it: the slot has another frame
// afterwards.
type frame struct {
	mu sync.Mutex
	share.Frame
	released bool
}

// tensor returns a tensor on the memory of the frame, which the caller closes.
func (f *frame) tensor() (*core.Tensor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.released {
		return nil, core.Errorf(core.ErrClosed, origin, "dlx_frame_tensor", "the frame was released")
	}
	return f.Tensor().Share()
}

// release releases the frame.
func (f *frame) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.released = true
	f.Release()
}

type publisher struct {
	*share.Publisher
	poller
}

type subscription struct {
	*share.Subscription
	poller
	moves bool // each frame to a device: one whose move is given up is lost
}

// ring reads the description of a ring.
func ring(r *C.dlx_ring) (share.Ring, error) {
	if err := required("ring", unsafe.Pointer(r)); err != nil {
		return share.Ring{}, err
	}
	if err := unset(r.reserved[:]...); err != nil {
		return share.Ring{}, err
	}
	s, err := newSpec(r.spec)
	if err != nil {
		return share.Ring{}, err
	}
	d, err := devices.getOptional(unsafe.Pointer(r.device))
	if err != nil {
		return share.Ring{}, err
	}
	var mode share.Mode
	switch r.mode {
	case C.DLX_RING_QUEUE:
		mode = share.Queue
	case C.DLX_RING_LATEST:
		mode = share.Latest
	default:
		return share.Ring{}, invalid("mode is %d, which is no DLX_RING_*", r.mode)
	}
	return share.Ring{Slots: int(r.slots), Shape: s.Shape, DType: s.DType, Device: d, Mode: mode}, nil
}

//export dlxgo_connection_publish
func dlxgo_connection_publish(handle *C.dlx_connection, name *C.char, r *C.dlx_ring, timeout C.int64_t, out **C.dlx_publisher, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("publisher", unsafe.Pointer(out)); err != nil {
			return err
		}
		if err := required("name", unsafe.Pointer(name)); err != nil {
			return err
		}
		c, err := connections.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		described, err := ring(r)
		if err != nil {
			return err
		}
		of := C.GoString(name)
		return c.within(timeout, func(ctx context.Context) error {
			p, err := c.Publish(ctx, of, described)
			if err == nil {
				publishers.add(unsafe.Pointer(out), publisher{p, c.poller})
			}
			return err
		})
	})
}

//export dlxgo_publisher_offer
func dlxgo_publisher_offer(handle *C.dlx_publisher, to *C.dlx_connection, timeout C.int64_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		p, err := publishers.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		c, err := connections.get(unsafe.Pointer(to))
		if err != nil {
			return err
		}
		return p.within(timeout, func(ctx context.Context) error { return p.Offer(ctx, c.Conn) })
	})
}

//export dlxgo_publisher_loan
func dlxgo_publisher_loan(handle *C.dlx_publisher, timeout C.int64_t, tensor **C.dlx_tensor, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		p, err := publishers.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		return p.resume(timeout, func(ctx context.Context) error {
			t, err := p.Loan(ctx)
			return setTensor(tensor, t, err)
		})
	})
}

//export dlxgo_publisher_loan_exported
func dlxgo_publisher_loan_exported(handle *C.dlx_publisher, timeout C.int64_t, tensor **C.dlx_tensor, managed **C.struct_DLManagedTensorVersioned, unfinished *C.int32_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		if err := required("managed", unsafe.Pointer(managed)); err != nil {
			return err
		}
		if err := required("unfinished", unsafe.Pointer(unfinished)); err != nil {
			return err
		}
		p, err := publishers.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		dlpack.Flush() // tensors of frames that were sent before may be gone, and their slots are free then
		return p.resume(timeout, func(ctx context.Context) error {
			t, err := p.Loan(ctx)
			if err != nil {
				return err
			}
			m, err := dlpack.Export(t)
			if err != nil {
				t.Close() // which gives the slot back
				return err
			}
			*(*unsafe.Pointer)(unsafe.Pointer(managed)), *unfinished = unsafe.Pointer(m), isUnfinished(t)
			return setTensor(tensor, t, nil)
		})
	})
}

//export dlxgo_publisher_send
func dlxgo_publisher_send(handle *C.dlx_publisher, tensor *C.dlx_tensor, timeout C.int64_t, sequence *C.uint64_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		p, err := publishers.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		return p.resume(timeout, func(ctx context.Context) error {
			r, err := p.Send(ctx, t)
			if err != nil {
				return err
			}
			// Another thread may have closed the handle in between: the ring then makes another tensor for the slot.
			_, _ = tensors.take(unsafe.Pointer(tensor))
			if sequence != nil {
				*sequence = C.uint64_t(r.Sequence)
			}
			return nil
		})
	})
}

//export dlxgo_publisher_wait_readers
func dlxgo_publisher_wait_readers(handle *C.dlx_publisher, count C.int32_t, timeout C.int64_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		p, err := publishers.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		return p.resume(timeout, func(ctx context.Context) error { return p.WaitReaders(ctx, int(count)) })
	})
}

//export dlxgo_publisher_wait_released
func dlxgo_publisher_wait_released(handle *C.dlx_publisher, timeout C.int64_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		p, err := publishers.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		return p.resume(timeout, p.WaitReleased)
	})
}

//export dlxgo_publisher_json
func dlxgo_publisher_json(handle *C.dlx_publisher, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		p, err := publishers.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		return setJSON(out, append([]share.Reader{}, p.Readers()...))
	})
}

//export dlxgo_publisher_close
func dlxgo_publisher_close(handle *C.dlx_publisher, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		p, err := publishers.take(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		return p.Close()
	})
}

//export dlxgo_connection_subscribe
func dlxgo_connection_subscribe(handle *C.dlx_connection, name *C.char, device *C.dlx_device, hold C.int32_t, timeout C.int64_t, out **C.dlx_subscription, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("subscription", unsafe.Pointer(out)); err != nil {
			return err
		}
		if err := required("name", unsafe.Pointer(name)); err != nil {
			return err
		}
		c, err := connections.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		d, err := devices.getOptional(unsafe.Pointer(device))
		if err != nil {
			return err
		}
		of := C.GoString(name)
		return c.within(timeout, func(ctx context.Context) error {
			s, err := c.Subscribe(ctx, of, share.SubscribeOptions{Device: d, Hold: int(hold)})
			if err == nil {
				subscriptions.add(unsafe.Pointer(out), subscription{s, c.poller, d != nil})
			}
			return err
		})
	})
}

//export dlxgo_subscription_receive
func dlxgo_subscription_receive(handle *C.dlx_subscription, timeout C.int64_t, out **C.dlx_frame, ended *C.int32_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("frame", unsafe.Pointer(out)); err != nil {
			return err
		}
		s, err := subscriptions.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		return s.receive(timeout, ended, func(f share.Frame) error {
			frames.add(unsafe.Pointer(out), &frame{Frame: f})
			return nil
		})
	})
}

// receive waits for a frame and passes it to take, which owns it. It sets *ended, unless ended is nil, to 1 at the end of the
// ring.
func (s subscription) receive(timeout C.int64_t, ended *C.int32_t, take func(share.Frame) error) error {
	wait := s.resume
	if s.moves {
		wait = s.within
	}
	return wait(timeout, func(ctx context.Context) error {
		f, err := s.Receive(ctx)
		if err == nil {
			return take(f)
		}
		if ended != nil && errors.Is(err, io.EOF) { // of the ring, or of its connection
			*ended = 1
		}
		return err
	})
}

//export dlxgo_subscription_receive_described
func dlxgo_subscription_receive_described(handle *C.dlx_subscription, timeout C.int64_t, out **C.dlx_frame, sequence *C.uint64_t, info *C.dlx_tensor_info, ended *C.int32_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		switch {
		case out == nil:
			return required("frame", nil)
		case sequence == nil:
			return required("sequence", nil)
		case info == nil:
			return required("info", nil)
		}
		s, err := subscriptions.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		dlpack.Flush() // tensors of frames that were released before may be gone, which are held no more then
		return s.receive(timeout, ended, func(f share.Frame) error {
			if err := describe(info, f.Tensor()); err != nil {
				f.Release()
				return err
			}
			*sequence = C.uint64_t(f.Sequence())
			frames.add(unsafe.Pointer(out), &frame{Frame: f})
			return nil
		})
	})
}

//export dlxgo_subscription_close
func dlxgo_subscription_close(handle *C.dlx_subscription, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		s, err := subscriptions.take(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		return s.Close()
	})
}

//export dlxgo_frame_tensor
func dlxgo_frame_tensor(handle *C.dlx_frame, tensor **C.dlx_tensor, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		f, err := frames.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		t, err := f.tensor()
		return setTensor(tensor, t, err)
	})
}

//export dlxgo_frame_sequence
func dlxgo_frame_sequence(handle *C.dlx_frame, sequence *C.uint64_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("sequence", unsafe.Pointer(sequence)); err != nil {
			return err
		}
		f, err := frames.get(unsafe.Pointer(handle))
		if err == nil {
			*sequence = C.uint64_t(f.Sequence())
		}
		return err
	})
}

//export dlxgo_frame_error
func dlxgo_frame_error(handle *C.dlx_frame, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		f, err := frames.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		return f.Err()
	})
}

//export dlxgo_frame_release
func dlxgo_frame_release(handle *C.dlx_frame, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		f, err := frames.take(unsafe.Pointer(handle))
		if err == nil {
			f.release()
		}
		return err
	})
}
