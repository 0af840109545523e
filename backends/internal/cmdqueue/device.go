// Package cmdqueue is what the backends have in common whose APIs record command buffers and submit them to a queue, with a
// timeline that says how much of the work is done: Vulkan and Metal. It has their streams, events and copies. A backend records
// and submits commands, and says which items of a stream are done.
package cmdqueue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
)

// Base is what the streams and semaphores of a device use of it.
type Base struct {
	devicebase.Device
	lost atomic.Pointer[error]
}

// NoteLoss records that the device is lost, if err says so. It returns err.
func (d *Base) NoteLoss(err error) error {
	if err != nil && errors.Is(err, core.ErrDeviceLost) {
		first := err // only this is allocated
		d.lost.CompareAndSwap(nil, &first)
	}
	return err
}

// LostError returns the error that reported the loss of the device, or nil.
func (d *Base) LostError() error {
	if e := d.lost.Load(); e != nil {
		return *e
	}
	return nil
}

// IsLost reports whether the device is lost.
func (d *Base) IsLost() bool { return d.lost.Load() != nil }

// Device is what the opened device of a backend embeds. Its streams have the type Q, and its buffers the type O.
type Device[Q Stream[Q], O Object] struct {
	Base
	// HostStrides says that the host makes strided copies of memory that it reaches, however large they are.
	HostStrides bool
	// MaxStaging is the largest size of staging memory in bytes; 0 means no bound.
	MaxStaging int64

	api API[Q, O]

	// guarded by Mu
	queues  devicebase.Lending[Q] // for copies without a stream
	staging []O                   // for copies between the host and memory that it does not reach
	lent    int                   // pieces of staging memory that are in use
	idle    sync.Cond             // signalled when lent decreases
}

// Stream is a stream that embeds a Queue.
type Stream[Q any] interface {
	comparable
	core.Stream
	Common() *Queue[Q]
}

// Object is a buffer of the device.
type Object interface {
	comparable
	HostAt(offset int64) uintptr // the host address of a byte, if the host reaches the buffer
	Bytes() int64
}

// API is what the device of a backend does for a Device.
type API[Q Stream[Q], O Object] interface {
	core.Device
	// NewQueue makes a stream. Mu is held.
	NewQueue() (Q, error)
	// OperandOf finds the memory of a tensor. It fails for memory of another device.
	OperandOf(t *core.Tensor) (Operand[O], error)
	// AddCopy adds items to q that make a copy between buffers of the device, and AddCopies adds items that make several
	// copies in any order. q.Mu is held.
	AddCopy(q Q, c Copy[O]) error
	AddCopies(q Q, copies []Copy[O]) error
	// Joins reports whether AddCopies takes a copy together with others. One side of it may still be the host's, and will be
	// staging memory.
	Joins(c Copy[O]) bool
	// NewStaging makes a buffer of at least size bytes that device and host reach, and Destroy destroys it. Mu is held.
	NewStaging(size int64) (O, error)
	Destroy(o O)
}

// Init initialises d as a part of api: see [devicebase.Device.Init]. streams counts the open streams.
func (d *Device[Q, O]) Init(api API[Q, O], info core.Properties) {
	d.api = api
	d.idle.L = &d.Mu
	d.Base.Init(api, info)
}

// NewStream makes a stream.
func (d *Device[Q, O]) NewStream(ctx context.Context) (core.Stream, error) {
	return d.OpenStream(ctx, "NewStream", d.api.NewQueue)
}

// OpenStream counts a stream that open makes with Mu held.
func (d *Device[Q, O]) OpenStream(ctx context.Context, call string, open func() (Q, error)) (core.Stream, error) {
	if err := d.Gate.Enter(ctx); err != nil {
		return nil, err
	}
	var q Q
	opened, err := d.Open(call, "stream", func() (err error) {
		if err = d.LostError(); err == nil {
			q, err = open()
		}
		return d.NoteLoss(err)
	})
	if err != nil {
		return nil, err
	}
	q.Common().opened = opened
	return q, nil
}

// StreamOf returns s as a stream of the device.
func (d *Device[Q, O]) StreamOf(call string, s core.Stream) (Q, error) {
	return devicebase.StreamOf[Q](&d.Device, call, s)
}

// Borrow lends a stream that nothing else uses meanwhile. The caller gives it back.
func (d *Device[Q, O]) Borrow() (Q, error) {
	q, err := d.queues.Borrow(&d.Device, d.api.NewQueue)
	return q, d.NoteLoss(err)
}

// GiveBack gives a stream back when its work is done, for which it waits. The work's errors were reported to others.
func (d *Device[Q, O]) GiveBack(q Q) {
	q.Common().rest()
	_ = q.Common().failures.take()
	d.queues.GiveBack(&d.Device, q)
}

// withStream calls f with q. If q is the zero value, withStream borrows a stream, calls f with it and with here set, and gives the
// stream back, also if f panics. If here is set, f must wait for its work, unless it fails.
func (d *Device[Q, O]) withStream(q Q, f func(q Q, here bool) error) error {
	var none Q
	if q != none {
		return f(q, false)
	}
	q, err := d.Borrow()
	if err != nil {
		return err
	}
	waited := false
	defer func() {
		if waited {
			d.GiveBack(q)
		} else {
			go d.GiveBack(q) // what was enqueued goes on, and events report on it
		}
	}()
	err = f(q, true)
	waited = err == nil
	return err
}

// Finished waits until no copy uses the device, and returns the streams that copies without a stream have used. Mu is held,
// and the device is closed.
func (d *Device[Q, O]) Finished() []Q {
	queues := d.queues.All(&d.Device)
	for d.lent > 0 {
		d.idle.Wait()
	}
	return queues
}
