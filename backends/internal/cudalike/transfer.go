package cudalike

import (
	"context"
	"math"
	"runtime"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
)

// work is a copy whose arguments were checked.
type work struct {
	device   *device
	queue    *queue
	tasks    []*hostTask // work of the host whose errors the copy reports: see step
	way      way
	waits    bool // the caller waits for earlier work and for the copy
	dst, src operand
	geometry copyplan.Copy
	bits     bool // geometry counts bits, not bytes
	checks   bool // the commands check themselves whether the stream is being captured
	few      bool // host memory that may be pinned is few bytes: it is not worth asking the driver
}

// way is how a copy is made.
type way uint8

const (
	inSteps way = iota // in several steps: see pack
	plain              // by a command for contiguous bytes
	boxes              // by rectangular commands
	onHost
	byKernel
)

const (
	// maxBoxes is how many rectangular commands replace one launch of a kernel.
	maxBoxes = 8
	// minRow is the least number of bytes of a row that a rectangular command moves well.
	minRow = 256
	// maxPitch is the largest pitch in bytes that every known device takes.
	maxPitch = math.MaxInt32
)

// fewBoxes reports whether rectangular commands do a copy well.
func fewBoxes(c copyplan.Copy) bool {
	box, at := c.Boxes()
	return at.Count() <= maxBoxes && box.Row >= minRow && max(box.DstRowPitch, box.SrcRowPitch) <= maxPitch
}

// verify asks the driver about the operands. It fails if an unverified one does not lie where its tensor says,
// and finds host memory that another library has pinned.
func (w *work) verify() error {
	r := w.geometry.ByteRange(w.bits)
	gains := !w.waits && !w.few || stagesPageable(w.geometry.Size()) // by memory that is pinned
	for _, x := range []struct {
		*operand
		low, high int64
	}{{&w.dst, r.DstLow, r.DstHigh}, {&w.src, r.SrcLow, r.SrcHigh}} {
		if err := w.device.verify("Copy", x.operand, x.base+uintptr(x.low), x.high-x.low, gains); err != nil {
			return err
		}
	}
	return nil
}

// verify asks the driver about size bytes of an operand from first on. It fails if an unverified operand does not lie where its
// tensor says. It sets reachable for memory that another device has pinned, and, if asks, for memory that another library may
// have pinned.
func (d *device) verify(call string, o *operand, first uintptr, size int64, asks bool) error {
	switch {
	case o.unverified:
		return d.checkPlace(call, o.tensor, first, size)
	case o.otherDevice, !o.reachable && asks:
		o.reachable = d.isPinned(first, size)
	}
	return nil
}

// checkPlace fails unless size bytes at p are memory of the type that the tensor t, which uses them, has.
func (d *device) checkPlace(call string, t *core.Tensor, p uintptr, size int64) error {
	want := t.DeviceID()
	m, err := d.identify(call, p, size, want.Type)
	if err != nil {
		return err
	}
	if m.ID.Type != want.Type {
		return d.Errorf(core.ErrInvalid, call, "%v is said to be memory of %v, and the driver says that it is memory of %v", t, want, m.ID)
	}
	return nil
}

// isPinned reports whether size bytes of host memory at p are pinned for this device.
func (d *device) isPinned(p uintptr, size int64) bool {
	a, s := d.context.Pointer(p)
	return s.OK() && a.Type == HostMemory && !a.Managed && d.pinsForThis(a) && a.Size-int64(p-a.Start) >= size
}

// pinsForThis reports whether pinned memory is pinned for this device. Memory that any context allocated is
// pinned for all devices. Memory that another context registered need not be (CUDA driver API, "Unified
// Addressing"). The driver does not say whether it is, so dlx treats it as not pinned.
func (d *device) pinsForThis(a Pointer) bool {
	return a.Context == 0 || a.Context == d.context.ID() || d.context.IsHostAllocation(a.Host)
}

// choose sets the fastest way that is possible.
func (w *work) choose() error {
	n, contiguous := w.geometry.Contiguous()
	reachable := w.dst.reachable && w.src.reachable
	switch {
	case w.bits:
		return w.device.Errorf(core.ErrNotSupported, "Copy", "packed %v elements do not lie on whole bytes, and the host cannot reach the memory", w.dst.tensor.DType())
	case contiguous && (reachable || w.waits && !stagesPageable(n)):
		w.way, w.checks = plain, true
	case reachable && fewBoxes(w.geometry):
		w.way = boxes
	case w.dst.host && w.src.host:
		w.way = onHost
	case reachable && !w.dst.host && !w.src.host:
		w.way = byKernel
	}
	return nil
}

// enqueue enqueues the commands of the copy.
func (w *work) enqueue() error {
	w.queue.hostTasks = append(w.queue.hostTasks, w.tasks...)
	switch w.way {
	case boxes:
		return w.boxes()
	case onHost:
		return w.onHost()
	case byKernel:
		return w.byKernel()
	default:
		return w.plain()
	}
}

// plain copies contiguous bytes.
func (w *work) plain() error {
	c := w.geometry
	s := w.queue.withEvent(func(event uintptr) (bool, Status) {
		return w.device.context.Copy(w.dst.base+uintptr(c.Dst), w.src.base+uintptr(c.Src), c.Elem, w.queue.raw, event)
	})
	return w.device.checkEnqueued(s, "a copy of %d bytes", c.Elem)
}

// checkEnqueued is check for a call that enqueues work, or nothing if the stream is being captured.
func (d *device) checkEnqueued(s Status, format string, args ...any) error {
	if s.Kind == Captured {
		return notEnqueuedError{d.check(s, notCaptured)}
	}
	return d.check(s, format, args...)
}

// boxes copies rectangles.
func (w *work) boxes() error {
	box, at := w.geometry.Boxes()
	for dst, src := range at.Pieces() {
		s := w.device.context.CopyBox(w.dst.base+uintptr(dst), w.src.base+uintptr(src), box, w.queue.raw)
		if err := w.device.check(s, "a copy of %d slices of %d rows of %d bytes", box.Slices, box.Rows, box.Row); err != nil {
			return err
		}
	}
	return nil
}

// onHost lets the host copy: in the stream, or at once if the caller has waited for earlier work.
func (w *work) onHost() error {
	dst, src, c := w.dst.base, w.src.base, w.geometry
	f := func() error { return hostcopy.Run(dst, src, c, false, runtime.GOMAXPROCS(0)) }
	if w.waits {
		return f()
	}
	return w.queue.hostWork(w.queue, f)
}

// hostTask is work of the host in a stream, and its result.
type hostTask struct{ err error }

// hostWork enqueues f, which the host runs in the stream q. The next event of reporter reports its error;
// reporter is q, or a stream that waits for q. The mutexes of both are held.
func (q *queue) hostWork(reporter *queue, f func() error) error {
	d, t := q.device, new(hostTask)
	s := d.context.LaunchHostFunc(q.raw, func() {
		if d.lostError() == nil { // else the memory may be free already: see event.completeLost
			t.err = f()
		}
		d.backend.hostWork.Pass()
	})
	if s.OK() {
		reporter.hostTasks = append(reporter.hostTasks, t)
	}
	return d.check(s, "a copy by the host")
}

// pack copies what no single command and no kernel can copy. An operand on the device that is not contiguous is packed
// there. What then crosses is staged. The temporary memory is released at once, and freed when the work is done.
func (w *work) pack(ctx context.Context) error {
	o := w.src
	if o.host || o.tensor.Layout().IsContiguous() {
		o = w.dst
	}
	if o.host || o.tensor.Layout().IsContiguous() {
		return w.stage(ctx)
	}
	packed, err := w.allocTemp(ctx, w.device.backend.Device, o.tensor.NumBytes(), packedSpec(o.tensor))
	if err != nil {
		return err
	}
	defer packed.tensor.Close()
	if err := w.step(ctx, packed, w.src); err != nil {
		return err
	}
	return w.step(ctx, w.dst, packed)
}

// step does a part of this copy. If the host has written src in the same stream, the step also reports the
// errors of that work.
func (w *work) step(ctx context.Context, dst, src operand) error {
	step := work{device: w.device, queue: w.queue, waits: w.waits, dst: dst, src: src}
	if e, ok := backendkit.UnwrapEvent(src.tensor.Ready()).(*event); ok && e.queue == w.queue {
		step.tasks = e.tasks()
	}
	return step.run(ctx)
}

// packedSpec describes a contiguous tensor with the type and the shape of t.
func packedSpec(t *core.Tensor) core.Spec {
	return core.Spec{DType: t.DType(), Shape: t.Shape(), Flags: t.Flags() & core.FlagSubBytePadded}
}

// allocTemp allocates temporary memory of the device, or pinned memory.
func (w *work) allocTemp(ctx context.Context, kind core.DeviceType, bytes int64, spec core.Spec) (operand, error) {
	o := core.AllocOptions{Type: kind}
	if !w.waits {
		o.Stream = w.queue
	}
	m, err := w.device.Alloc(ctx, bytes, o)
	if err != nil {
		return operand{}, err
	}
	t, err := core.Wrap(m, spec)
	if err != nil {
		m.Free()
		return operand{}, err
	}
	return operand{tensor: t, base: m.Handle, reachable: true, host: kind == w.device.backend.Host}, nil
}
