package cudalike

import (
	"cmp"
	"context"
	"errors"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Copy copies between memory of this device, pinned and managed memory, and all other memory that the host can
// reach. Host memory that is not pinned is staged in pinned memory. Copy fails with ErrNotSupported for packed
// elements that do not lie on whole bytes, and for a stream that is being captured into a graph: dlx would not
// know when the graph runs the copy, and could record no event for it.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	q, p, todo, err := devicebase.BeginCopy[*queue](ctx, &d.Device, s, dst, src, d.operandOf)
	if err != nil || !todo {
		return err
	}
	defer d.Drop()
	w := &work{device: d, queue: q, waits: q == nil, dst: p.Dst, src: p.Src}
	if !w.waits {
		return w.run(ctx)
	}
	return d.runAndWait(ctx, func(q *queue) error {
		w.queue = q
		return w.run(ctx)
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

// Ours implements [devicebase.Operand].
func (o operand) Ours() bool { return o.reachable }

// Host implements [devicebase.Operand]. It returns 0, since backendkit.CheckCopy has compared all addresses of the host.
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
	w.geometry, w.bits = copyplan.OfBits(w.dst.tensor, w.src.tensor)
	if err := w.verify(); err != nil {
		return err
	}
	if err := w.choose(); err != nil {
		return err
	}
	if w.way == inSteps {
		return w.pack(ctx)
	}
	return w.submit(ctx, nil, w)
}

// submit submits commands of the copy, which also use the tensor temp, unless that is nil.
func (w *work) submit(ctx context.Context, temp *core.Tensor, c commands) error {
	writes := []*core.Tensor{w.dst.tensor}
	if temp != nil {
		writes = append(writes, temp)
	}
	x := &submission{queue: w.queue, call: "Copy", waits: w.waits, checks: w.checks, writes: writes, reads: []*core.Tensor{w.src.tensor}, commands: c}
	return x.submit(ctx)
}

// submission is commands for a copy, or for several.
type submission struct {
	queue         *queue
	call          string
	waits         bool // the caller waits for earlier work and for the copies
	checks        bool // the commands check themselves whether the stream is being captured
	writes, reads []*core.Tensor
	commands      commands
	failed        error // of the commands
}

// commands enqueue themselves. The mutex of the stream is held.
type commands interface{ enqueue() error }

// submit is [stream.Submit] or, if the caller waits, [stream.SubmitAndWait]: the driver may use memory that is not pinned
// during the call, before earlier work of the stream is done.
func (x *submission) submit(ctx context.Context) error {
	submit := stream.Submit
	if x.waits {
		submit = stream.SubmitAndWait
	}
	err := submit(ctx, x.queue, x.writes, x.reads, x.enqueue)
	return cmp.Or(x.failed, err)
}

// enqueue enqueues the commands. If they fail, submit does not see the error: commands before the one that failed may run,
// and need their event; but not if the driver has refused all, which is a notEnqueuedError.
func (x *submission) enqueue() error {
	if err := x.queue.begin(x.call, !x.checks); err != nil {
		return err
	}
	defer x.queue.unlock()
	x.failed = x.commands.enqueue()
	var none notEnqueuedError
	if errors.As(x.failed, &none) {
		x.failed = none.error
		return none.error
	}
	return nil
}

// notEnqueuedError is the error of commands for a stream that is being captured.
type notEnqueuedError struct{ error }
