//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
)

// work is a copy whose arguments were checked.
type work struct {
	queue    *queue
	waits    bool // the caller waits for earlier work and for the copy
	way      way
	dst, src operand
	geometry copyplan.Copy
	bits     bool        // what geometry counts
	failed   error       // why a command could not be enqueued
	tasks    []*hostTask // see copy
}

// way is how a copy is made.
type way uint8

const (
	staged   way = iota // in several steps: see stage
	inCaller            // by the host, in the calling goroutine
	onHost              // by the host, in the queue
	plain               // by a command for contiguous bytes
	boxes               // by rectangular commands
	byKernel
)

const (
	// maxBoxes is how many rectangular commands replace one launch of a kernel.
	maxBoxes = 8
	// minRow is the least number of bytes of a row that a rectangular command
	// moves well: drivers move rows one by one.
	minRow = 256
	// minCommand is the size from which a plain command is faster than a copy by the
	// caller, if the caller waits for it.
	minCommand = 64 << 10
	// minHost is the size from which the host, with all its cores, is faster in its own
	// memory than a rectangular command, including the time to start the host's work.
	minHost = 8 << 20
)

// choose sets the fastest way that is possible.
func (w *work) choose() error {
	_, contiguous := w.geometry.Contiguous()
	hostReaches := w.dst.host != 0 && w.src.host != 0
	command := (w.dst.mem != 0 || w.src.mem != 0) && !w.sharePages() // may use both sides
	box, at := w.geometry.Boxes()
	// Within one buffer the rectangles would have to have equal pitches. USM has no commands for rectangles.
	few := w.queue.device.usm == nil && !w.bits && at.Count() <= maxBoxes && box.Row >= minRow && w.dst.mem != w.src.mem
	switch {
	case hostReaches && w.waits && (!contiguous || w.geometry.Size() < minCommand):
		w.way = inCaller
	case contiguous && !w.bits && command:
		w.way = plain
	case few && command && (!hostReaches || w.geometry.Size() < minHost):
		w.way = boxes
	case hostReaches:
		w.way = onHost
	case w.bits:
		return w.queue.device.errorf(core.ErrNotSupported, "Copy", "packed %v elements do not lie on whole bytes, and the host cannot reach the memory", w.dst.tensor.DType())
	case w.dst.mem != 0 && w.src.mem != 0 && command:
		w.way = byKernel
	}
	return nil
}

// sharePages reports whether one command must not use both operands, since the driver may get the same host
// pages twice: as two cl_mem, between which the result is undefined (clCreateBuffer), or as a cl_mem and a
// pointer into the memory that it was made over. The driver may take that pointer for the cl_mem's own: PoCL
// up to 7.1 copies nothing if the pointer is where the cl_mem begins, whatever the offset.
func (w *work) sharePages() bool {
	if w.dst.mem == w.src.mem || w.dst.mustHandOver && w.src.mustHandOver {
		return w.dst.mustHandOver
	}
	r := w.geometry.ByteRange(w.bits)
	return w.dst.pages(r.DstLow, r.DstHigh).meets(w.src.pages(r.SrcLow, r.SrcHigh))
}

// enqueue enqueues the copy. If a command fails, its error is kept in failed: the commands before it may run, and need
// their event.
func (w *work) enqueue() error {
	if err := w.queue.lock("Copy"); err != nil {
		return err
	}
	defer w.queue.mu.Unlock()
	w.queue.hostTasks = append(w.queue.hostTasks, w.tasks...)
	if w.way == onHost {
		w.failed = w.onHost()
	} else {
		w.failed = w.onDevice()
	}
	return nil
}

// onDevice enqueues commands that use both operands.
func (w *work) onDevice() error {
	return w.queue.handOverBoth(w.dst, w.src, w.geometry.Range(), w.commands)
}

// commands enqueues the commands.
func (w *work) commands() error {
	switch w.way {
	case plain:
		return w.plain()
	case boxes:
		return w.boxes()
	default:
		return w.byKernel()
	}
}

// plain copies contiguous bytes.
func (w *work) plain() error {
	q, c := w.queue, w.geometry
	var s driver.Status
	var call string
	switch usm := q.device.usm; {
	case usm != nil:
		s, call = usm.Copy(q.raw, w.dst.address()+uintptr(c.Dst), w.src.address()+uintptr(c.Src), c.Elem), "clEnqueueMemcpyINTEL"
	case w.dst.mem == 0:
		s, call = driver.Read(q.raw, w.src.mem, c.Src, c.Elem, w.dst.host+uintptr(c.Dst)), "clEnqueueReadBuffer"
	case w.src.mem == 0:
		s, call = driver.Write(q.raw, w.dst.mem, c.Dst, c.Elem, w.src.host+uintptr(c.Src)), "clEnqueueWriteBuffer"
	default:
		s, call = driver.Copy(q.raw, w.dst.mem, c.Dst, w.src.mem, c.Src, c.Elem), "clEnqueueCopyBuffer"
	}
	if err := w.queue.device.check(s, call, "a copy of %d bytes", c.Elem); err != nil {
		return err
	}
	return q.inOrder()
}

// boxes copies rectangles. Each begins at the host address that the driver gets, since the driver takes no
// negative offsets. Tensors have these if elements lie before their handle.
func (w *work) boxes() error {
	q := w.queue
	box, at := w.geometry.Boxes()
	for dst, src := range at.Pieces() {
		b := driver.Box{
			Row: box.Row, Rows: box.Rows, Slices: box.Slices,
			DstRowPitch: box.DstRowPitch, DstSlicePitch: box.DstSlicePitch,
			SrcRowPitch: box.SrcRowPitch, SrcSlicePitch: box.SrcSlicePitch,
			DstAt: dst, SrcAt: src,
		}
		var s driver.Status
		var call string
		switch {
		case w.dst.mem == 0:
			b.DstAt = 0
			s, call = driver.ReadBox(q.raw, w.src.mem, w.dst.host+uintptr(dst), b), "clEnqueueReadBufferRect"
		case w.src.mem == 0:
			b.SrcAt = 0
			s, call = driver.WriteBox(q.raw, w.dst.mem, w.src.host+uintptr(src), b), "clEnqueueWriteBufferRect"
		default:
			s, call = driver.CopyBox(q.raw, w.dst.mem, w.src.mem, b), "clEnqueueCopyBufferRect"
		}
		if err := w.queue.device.check(s, call, "%d slices of %d rows of %d bytes", box.Slices, box.Rows, box.Row); err != nil {
			return err
		}
		if err := q.inOrder(); err != nil {
			return err
		}
	}
	return nil
}

// byKernel copies single words by a kernel, in as many launches as needed.
func (w *work) byKernel() error {
	q := w.queue
	words := w.geometry.Narrow(min(w.dst.wordSize(), w.src.wordSize()))
	for part := range words.Split(launch) {
		if err := q.device.gather.enqueue(q, w.dst.mem, w.src.mem, part); err != nil {
			return err
		}
	}
	return nil
}

// run lets the calling goroutine copy, on the host.
func (w *work) run() error {
	return hostcopy.Run(w.dst.host, w.src.host, w.geometry, w.bits, runtime.GOMAXPROCS(0))
}

// onHost lets the host copy when the earlier work of the queue is done.
func (w *work) onHost() error {
	return w.queue.hostWork(func(failed error) error {
		if failed == nil {
			failed = w.run()
		}
		return failed
	})
}

// wordSize is the size of the largest word that the kernel may move, by the alignment of the memory.
func (k known) wordSize() int64 {
	if k.word == 0 {
		return maxWord
	}
	return k.word
}
