//go:build opencl && linux && cgo

package opencl

import (
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/copykernel"
	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/backends/opencl/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// transfer is a copy that was checked.
type transfer struct {
	queue    *queue
	waits    bool // the caller does, for all that is before and for the copy
	atOnce   bool // the host copies in the calling goroutine: see copyHere
	dst, src side
	geometry strided.Copy
	bits     bool    // what geometry counts
	failed   error   // what a command could not be enqueued for
	behind   []*turn // see copy
}

const (
	// maxBoxes is how many rectangular commands replace one launch of a kernel.
	maxBoxes = 8
	// minRow is the least number of bytes of a row that a rectangular command
	// moves well: drivers move rows one by one.
	minRow = 256
	// minCommand is the size from which a plain command is worth its way to the
	// driver and back, for a caller who waits and could copy meanwhile.
	minCommand = 64 << 10
	// minHost is the size from which the host, with all its cores, is faster in its
	// own memory than a rectangular command, by more than it takes to give it a turn.
	minHost = 8 << 20
)

// choose picks the cheapest way that is there, nil if there is none in one piece, or sets atOnce.
func (w *transfer) choose() (func() error, error) {
	_, contiguous := w.geometry.Contiguous()
	inReach := w.dst.host != 0 && w.src.host != 0
	command := (w.dst.mem != 0 || w.src.mem != 0) && !w.sharePages() // may use both sides
	box, at := w.geometry.Boxes()
	// Within one buffer the rectangles would have to have equal pitches.
	boxes := !w.bits && at.Count() <= maxBoxes && box.Row >= minRow && w.dst.mem != w.src.mem
	switch {
	case inReach && w.waits && (!contiguous || w.geometry.Size() < minCommand):
		w.atOnce = true
		return nil, nil
	case contiguous && !w.bits && command:
		return w.enqueued(w.plain), nil
	case boxes && command && (!inReach || w.geometry.Size() < minHost):
		return w.enqueued(w.boxes), nil
	case inReach:
		return w.enqueued(w.onHost), nil
	case w.bits:
		return nil, errorf(core.ErrNotSupported, "Copy", "packed %v elements do not lie on whole bytes, and the host cannot reach the memory", w.dst.tensor.DType())
	case w.dst.mem != 0 && w.src.mem != 0 && command:
		return w.enqueued(w.byKernel), nil
	}
	return nil, nil
}

// sharePages reports whether one command must not use both sides, since the driver may
// get the same pages of the host twice: by two cl_mem, between which the result is
// undefined (clCreateBuffer), or by a cl_mem and a pointer to what it is over. The
// driver may take that pointer for the cl_mem's own: PoCL up to 7.1 copies nothing if it
// is the address where the cl_mem begins, whatever the offset is.
func (w *transfer) sharePages() bool {
	if w.dst.mem == w.src.mem || w.dst.toldOf && w.src.toldOf {
		return w.dst.toldOf
	}
	r := w.geometry.ByteRange(w.bits)
	return w.dst.pages(r.DstLow, r.DstHigh).meets(w.src.pages(r.SrcLow, r.SrcHigh))
}

// enqueued returns a function that puts the commands on the queue. If one fails, failed
// keeps its error: commands before it may run, and need their event.
func (w *transfer) enqueued(commands func() error) func() error {
	return func() error {
		if err := w.queue.lock("Copy"); err != nil {
			return err
		}
		defer w.queue.mu.Unlock()
		w.queue.turns = append(w.queue.turns, w.behind...)
		w.failed = commands()
		return nil
	}
}

// onDevice enqueues commands that use both sides, between handing the memory over
// and taking it back.
func (w *transfer) onDevice(commands func() error) error {
	q, r := w.queue, w.geometry.Range()
	if err := q.handOver(w.src, r.SrcLow, r.SrcHigh); err != nil {
		return err
	}
	if err := q.handOver(w.dst, r.DstLow, r.DstHigh); err != nil {
		return err
	}
	if err := commands(); err != nil {
		return err
	}
	if err := q.handBack(w.src, r.SrcLow, r.SrcHigh, false); err != nil {
		return err
	}
	return q.handBack(w.dst, r.DstLow, r.DstHigh, true)
}

// plain copies bytes that lie in a row.
func (w *transfer) plain() error {
	q, c := w.queue, w.geometry
	return w.onDevice(func() error {
		var s driver.Status
		var call string
		switch {
		case w.dst.mem == 0:
			s, call = driver.Read(q.raw, w.src.mem, c.Src, c.Elem, w.dst.host+uintptr(c.Dst)), "clEnqueueReadBuffer"
		case w.src.mem == 0:
			s, call = driver.Write(q.raw, w.dst.mem, c.Dst, c.Elem, w.src.host+uintptr(c.Src)), "clEnqueueWriteBuffer"
		default:
			s, call = driver.Copy(q.raw, w.dst.mem, c.Dst, w.src.mem, c.Src, c.Elem), "clEnqueueCopyBuffer"
		}
		if err := check(s, call, "a copy of %d bytes", c.Elem); err != nil {
			return err
		}
		return q.inOrder()
	})
}

// boxes copies rectangles. On the host each begins at the address that the driver gets:
// it takes no negative offsets, which tensors have whose memory starts before their handle.
func (w *transfer) boxes() error {
	q := w.queue
	box, at := w.geometry.Boxes()
	return w.onDevice(func() error {
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
			if err := check(s, call, "%d slices of %d rows of %d bytes", box.Slices, box.Rows, box.Row); err != nil {
				return err
			}
			if err := q.inOrder(); err != nil {
				return err
			}
		}
		return nil
	})
}

// byKernel copies single words, in as many launches as the kernel needs.
func (w *transfer) byKernel() error {
	q := w.queue
	words := w.geometry.Narrow(min(w.dst.wordSize(), w.src.wordSize()))
	return w.onDevice(func() error {
		for part := range words.Split(launch) {
			if err := q.device.gather.enqueue(q, w.dst.mem, w.src.mem, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// run has the host copy.
func (w *transfer) run() error {
	return copykernel.Run(w.dst.host, w.src.host, w.geometry, w.bits, runtime.GOMAXPROCS(0))
}

// onHost has the host copy when the turn of the copy has come.
func (w *transfer) onHost() error {
	return w.queue.hostWork(func(failed error) error {
		if failed == nil {
			failed = w.run()
		}
		return failed
	})
}

// word is the largest word that the kernel may move, as the memory is aligned.
func (k known) wordSize() int64 {
	if k.word == 0 {
		return maxWord
	}
	return k.word
}
