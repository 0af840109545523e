package cudalike

import (
	"cmp"
	"context"
	"errors"

	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Copy copies between memory of this device, pinned and managed memory, and all other memory that the host can
// reach. Host memory that is not pinned is staged in pinned memory. Copy fails with ErrNotSupported for packed
// elements that do not lie on whole bytes, and for a stream that is being captured into a graph: dlx would not
// know when the graph runs the copy, and could record no event for it.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	if err := d.hold("Copy"); err != nil {
		return err
	}
	defer d.Drop()
	return shell.Copy(ctx, &d.Device, s, dst, src, d.operandOf, func(q *queue, to, from operand) error {
		w := &work{device: d, queue: q, waits: q == nil, dst: to, src: from}
		if !w.waits {
			return w.run(ctx)
		}
		return d.runAndWait(ctx, func(q *queue) error {
			w.queue = q
			return w.run(ctx)
		})
	})
}

// operand is the memory of one tensor of a copy.
type operand struct {
	tensor      *core.Tensor
	base        uintptr // the address that offsets count from
	reachable   bool    // the device can use the address: its own, pinned and managed memory
	host        bool    // host memory, except managed memory
	unverified  bool    // only another library says that the device can use the address
	otherDevice bool    // another opened device allocated the memory as pinned
}

// Ours implements [shell.Operand].
func (o operand) Ours() bool { return o.reachable }

// Host implements [shell.Operand]. It returns 0, since backendkit.CheckCopy has compared all addresses of the host.
func (o operand) Host() uintptr { return 0 }

// operandOf returns the memory of t. It fails with ErrDevice for memory of another device.
func (d *device) operandOf(t *core.Tensor) (operand, error) {
	m, host, err := d.Locate(t)
	if err != nil {
		return operand{}, err
	}
	o := operand{tensor: t, base: m.Handle}
	o.reachable = !host || m.ID.Type == d.backend.Host || m.ID.Type == d.backend.Managed
	o.host = host && m.ID.Type != d.backend.Managed
	o.unverified = o.reachable && m.Device == nil && m.Handle != 0
	o.otherDevice = o.reachable && o.host && m.Device != nil && m.Device != d
	return o, nil
}

// run does the copy if the caller waits for it, and enqueues it otherwise.
func (w *work) run(ctx context.Context) error {
	w.geometry, w.bits = strided.OfBits(w.dst.tensor, w.src.tensor)
	if err := w.verify(); err != nil {
		return err
	}
	commands, err := w.choose()
	if err != nil {
		return err
	}
	if commands == nil {
		return w.pack(ctx)
	}
	return w.submit(ctx, nil, commands)
}

// submit calls commands, which enqueues commands that also use the tensor temp, unless that is nil.
func (w *work) submit(ctx context.Context, temp *core.Tensor, commands func() error) error {
	writes := []*core.Tensor{w.dst.tensor}
	if temp != nil {
		writes = append(writes, temp)
	}
	submit := stream.Submit
	if w.waits {
		// The driver may use memory that is not pinned during the call, before earlier work of the stream is done.
		submit = stream.SubmitAndWait
	}
	enqueue := w.queue.enqueue
	if w.checks {
		enqueue = w.queue.enqueueUnchecked
	}
	return submitTo(ctx, submit, w.queue, enqueue, "Copy", writes, []*core.Tensor{w.src.tensor}, func() error {
		w.queue.hostTasks = append(w.queue.hostTasks, w.tasks...)
		return commands()
	})
}

// submitFunc is the type of stream.Submit and stream.SubmitAndWait.
type submitFunc = func(ctx context.Context, s core.Stream, writes, reads []*core.Tensor, enqueue func() error) error

// submit calls stream.Submit for q.
func (q *queue) submit(ctx context.Context, call string, writes []*core.Tensor, src *core.Tensor, commands func() error) error {
	return submitTo(ctx, stream.Submit, q, q.enqueue, call, writes, []*core.Tensor{src}, commands)
}

// submitTo calls submit for q. If commands fails, submit does not see the error: commands before the one that
// failed may run, and need their event; but not if the driver has refused all, which is a notEnqueuedError. enqueue is a
// method of q.
func submitTo(ctx context.Context, submit submitFunc, q *queue, enqueue func(string, func() error) error, call string, writes, reads []*core.Tensor, commands func() error) error {
	var failed error
	err := submit(ctx, q, writes, reads, func() error {
		return enqueue(call, func() error {
			failed = commands()
			var none notEnqueuedError
			if errors.As(failed, &none) {
				failed = none.error
				return failed
			}
			return nil
		})
	})
	return cmp.Or(failed, err)
}

// notEnqueuedError is the error of commands for a stream that is being captured.
type notEnqueuedError struct{ error }
