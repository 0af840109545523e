//go:build webgpu && linux && cgo

package webgpu

import (
	"context"
	"time"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/microsleep"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Copy copies within the device's buffers and between them and host memory.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	q, p, todo, err := devicebase.BeginCopy[*devicebase.Queue](ctx, &d.Device, s, dst, src, d.operandOf)
	if err != nil || !todo {
		return err
	}
	defer d.Drop()
	return d.copyOne(ctx, q, p)
}

// copyOne lets a stream make a copy. If q is nil, it returns when the copy is made.
func (d *device) copyOne(ctx context.Context, q *devicebase.Queue, p devicebase.Pair[operand]) error {
	if q == nil {
		if submit := d.small(p.Dst, p.Src); submit != nil {
			return d.copyHere(ctx, p.Dst.Tensor, p.Src.Tensor, submit)
		}
	}
	add, err := d.copyWork(p.Dst, p.Src)
	if err != nil {
		return err
	}
	return d.enqueue(ctx, q, []*core.Tensor{p.Dst.Tensor}, []*core.Tensor{p.Src.Tensor}, add)
}

// onHost returns a function that enqueues work, which ends when all is done.
func onHost(work func() error) func(*stream.Queue) error {
	return func(q *stream.Queue) error { return q.Enqueue(work) }
}

// onDevice returns a function that enqueues work which is submitted to the device and done later: the queue of the device keeps
// the order. Work with a temporary buffer that is too large to be kept waits for the device, so that one piece at a time has
// such memory.
func onDevice(temporary int64, submit func() (*wgpu.Work, error)) func(*stream.Queue) error {
	if temporary > maxSpare {
		return onHost(func() error { return wait(submit()) })
	}
	return func(q *stream.Queue) error {
		return devicebase.Start(q, func() (func() (bool, error), error) {
			w, err := submit()
			if err != nil {
				return nil, err
			}
			return newWaiter(w).ended, nil
		})
	}
}

// enqueue lets a stream do work that writes dst and reads src, which add enqueues. If q is nil, it is a stream of the device's, and
// enqueue returns when the work is done.
func (d *device) enqueue(ctx context.Context, q *devicebase.Queue, dst, src []*core.Tensor, add func(*stream.Queue) error) error {
	if q != nil {
		return stream.Submit(ctx, q, dst, src, func() error { return add(q.Queue) })
	}
	own, err := d.borrow()
	if err != nil {
		return err
	}
	err = stream.SubmitAndWait(ctx, own, dst, src, func() error { return add(own) })
	giveBack := func() {
		_ = own.Synchronize(context.Background()) // its errors were reported
		d.streams.GiveBack(&d.Device, own)
	}
	if ctx.Err() != nil { // the work may still run
		go giveBack()
	} else {
		giveBack()
	}
	return err
}

// borrow lends a stream of the device's.
func (d *device) borrow() (*stream.Queue, error) {
	return d.streams.Borrow(&d.Device, func() (*stream.Queue, error) { return stream.NewQueue(d), nil })
}

// copyHere copies on the goroutine of the caller: a stream's goroutine would begin and end as late as Go's scheduler lets it, which
// for a small copy is a third of the time. If ctx ends first, the work goes on, and dst and src keep its event.
func (d *device) copyHere(ctx context.Context, dst, src *core.Tensor, submit func() (*wgpu.Work, error)) error {
	u, err := stream.Acquire(ctx, []*core.Tensor{dst}, []*core.Tensor{src})
	if err != nil {
		return err
	}
	defer u.Release()
	done := stream.NewEvent()
	u.Note(done)
	w, err := submit()
	if err != nil {
		done.Complete(err)
		return err
	}
	for x := newWaiter(w); ; {
		if ended, err := x.ended(); ended {
			done.Complete(err)
			return err
		}
		if err := ctx.Err(); err != nil {
			lent, _ := d.borrow() // Close waits until it is given back; the device is held now, so that this does not fail
			go func() {
				done.Complete(x.wait())
				d.streams.GiveBack(&d.Device, lent)
			}()
			return err
		}
	}
}

// operand is the memory of one tensor of a copy. Of the tensor it uses only what a closed tensor still knows.
type operand struct {
	*core.Tensor
	buffer *buffer // nil for host memory
	base   uintptr // the host address of the byte at offset 0; 0 for a buffer
}

func (s operand) Host() uintptr { return s.base }
func (s operand) Ours() bool    { return s.buffer != nil }

// operandOf finds the memory of a tensor. It fails for memory of another device.
func (d *device) operandOf(t *core.Tensor) (operand, error) {
	m, host, err := d.Locate(t)
	switch {
	case err != nil:
		return operand{}, err
	case host:
		return operand{t, nil, m.Handle}, nil
	case m.Handle == 0: // of size 0
		return operand{Tensor: t, buffer: &buffer{}}, nil
	}
	d.Mu.Lock()
	known := d.buffers[wgpu.Handle(m.Handle)]
	d.Mu.Unlock()
	if known == nil {
		return operand{}, d.Errorf(core.ErrInvalid, "Copy", "the buffer %#x is not one that the device knows: import it by ImportPointer, or it was closed during the call", m.Handle)
	}
	return operand{t, known, 0}, nil
}

// Pauses between two questions to the device.
const (
	firstPause = 5 * time.Microsecond
	lastPause  = 500 * time.Microsecond
)

// waiter asks for submitted work, which it owns.
type waiter struct {
	work  *wgpu.Work
	pause time.Duration // after the next question
}

func newWaiter(w *wgpu.Work) *waiter { return &waiter{w, firstPause} }

// ended reports whether the work has ended, and its error. If it has not, ended pauses, each time longer; if it has, nobody asks again.
func (x *waiter) ended() (bool, error) {
	if done, err := x.work.Done("wgpuDevicePoll"); done || err != nil {
		x.work.Drop()
		return true, err
	}
	microsleep.Sleep(x.pause)
	x.pause = min(2*x.pause, lastPause)
	return false, nil
}

// wait waits until the work has ended, and returns its error.
func (x *waiter) wait() error {
	for {
		if ended, err := x.ended(); ended {
			return err
		}
	}
}

// wait waits until work has ended. It takes w over.
func wait(w *wgpu.Work, err error) error {
	if err != nil {
		return err
	}
	return newWaiter(w).wait()
}
