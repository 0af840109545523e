package cmdqueue

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
)

// Copies between the host and memory that it cannot reach use staging memory that host and device reach: they are made in
// pieces if both tensors are contiguous, else packed and as a whole.

const (
	// minStaging is the smallest size of staging memory, so that small copies can reuse each other's.
	minStaging = 64 << 10
	// keptStaging is how many pieces of staging memory are kept for later copies; keptSmallStaging is the same for pieces of
	// the smallest size.
	keptStaging, keptSmallStaging = 4, 64
)

// takeStaging lends memory of at least size bytes that device and host can reach. It belongs to the device and does not count
// as memory of its users. The device is held.
func (d *Device[Q, O]) takeStaging(size int64) (o O, err error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	for i, o := range d.staging {
		if o.Bytes() >= size {
			d.staging = slices.Delete(d.staging, i, i+1)
			d.lent++
			return o, nil
		}
	}
	want := blockpool.RoundUp(size, minStaging)
	if most := d.MaxStaging; most > 0 {
		if size > most {
			return o, d.Errorf(core.ErrOutOfMemory, "Copy", "the copy needs %d bytes of staging memory, and a buffer can have %d: copy parts of the tensors", size, most)
		}
		want = min(want, most)
	}
	if o, err = d.api.NewStaging(want); err == nil {
		d.lent++
	}
	return o, err
}

// giveStagingBack keeps staging memory for later copies, or destroys it. Work of a lost device may still use it.
func (d *Device[Q, O]) giveStagingBack(o O) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if len(d.staging) < keptStaging || o.Bytes() == minStaging && len(d.staging) < keptSmallStaging || d.LostError() != nil {
		d.staging = append(d.staging, o)
	} else {
		d.api.Destroy(o)
	}
	d.lent--
	d.idle.Broadcast()
}

// giveStagingBackAfter gives staging memory back when the work of a stream is done.
func (d *Device[Q, O]) giveStagingBackAfter(s Q, o O) {
	q := s.Common()
	q.Mu.Lock()
	e := q.At(q.next)
	q.Mu.Unlock()
	if done, _ := e.Done(); done {
		d.giveStagingBack(o)
		return
	}
	d.Reaper.After([]core.Event{e}, func() { d.giveStagingBack(o) })
}

// DestroyStaging destroys the staging memory. Mu is held, and no work uses it.
func (d *Device[Q, O]) DestroyStaging() {
	for _, o := range d.staging {
		d.api.Destroy(o)
	}
	d.staging = nil
}

// addPieces brings contiguous bytes through the halves of the staging memory: while the device works on one half, the host
// works on the other. A download is late: the device gets the commands that fill one half before the host waits for the other.
func (w *work[Q, O]) addPieces(q *Queue[Q]) error {
	w.first = q.next
	w.pipeline.Steps, w.pipeline.Late = w, !w.dst.Ours()
	for i := range staging.Buffers {
		w.pipeline.Use(i, int64(i)*staging.PieceBytes)
	}
	ctx := context.Background() // adding items does not block, and a copy that was begun goes on after the caller's context
	for at := int64(0); at < w.geometry.Size(); at += staging.PieceBytes {
		if err := w.pipeline.Put(ctx, at); err != nil {
			return err
		}
	}
	if err := w.pipeline.Flush(ctx); err != nil || w.dst.Ours() {
		return err
	}
	return q.Add(Item[Q]{Host: func() error { return nil }}) // done when the host is
}

// Fill adds the copy of a piece to a half of the staging memory.
func (w *work[Q, O]) Fill(_ context.Context, half *int64, at int64, free uint64) (filled uint64, err error) {
	if w.dst.Ours() {
		host := w.src.At + uintptr(w.geometry.Src+at)
		return 0, w.byHost(w.staging.HostAt(*half), host, at, free)
	}
	return w.byDevice(w.staging, w.src.Object, copyplan.Copy{Dst: *half, Src: w.geometry.Src + at}, at)
}

// Empty adds the copy of a piece from its half.
func (w *work[Q, O]) Empty(_ context.Context, half *int64, at int64, filled uint64) (free uint64, err error) {
	if w.dst.Ours() {
		return w.byDevice(w.dst.Object, w.staging, copyplan.Copy{Dst: w.geometry.Dst + at, Src: *half}, at)
	}
	host := w.dst.At + uintptr(w.geometry.Dst+at)
	return 0, w.byHost(host, w.staging.HostAt(*half), at, filled)
}

// byHost adds the copy of a piece by the host, which runs when the item numbered after, and the work before this copy, is
// done. It has no number: later items of the queue run after it anyway.
func (w *work[Q, O]) byHost(dst, src uintptr, at int64, after uint64) error {
	job := hostcopy.Bytes(dst, src, w.pieceBytes(at))
	return w.queue.Common().Add(Item[Q]{Early: true, After: max(after, w.first), Host: run(job)})
}

// byDevice adds the copy of a piece by the device, and returns its number.
func (w *work[Q, O]) byDevice(dst, src O, c copyplan.Copy, at int64) (uint64, error) {
	c.Elem = w.pieceBytes(at)
	err := w.copy(dst, src, c)
	return w.queue.Common().next, err
}

// pieceBytes returns the size of the piece that begins after at bytes.
func (w *work[Q, O]) pieceBytes(at int64) int64 {
	return min(staging.PieceBytes, w.geometry.Size()-at)
}

// uploadPacked lets the host pack the elements, and the device distribute them.
func (w *work[Q, O]) uploadPacked(q *Queue[Q]) error {
	if err := q.Add(Item[Q]{Host: run(hostcopy.Pack(w.staging.HostAt(0), w.src.Tensor, w.src.At))}); err != nil {
		return err
	}
	c, _ := copyplan.Unpack(w.dst.Tensor)
	return w.copy(w.dst.Object, w.staging, c)
}

// downloadPacked lets the device pack the elements, and the host distribute them.
func (w *work[Q, O]) downloadPacked(q *Queue[Q]) error {
	c, _ := copyplan.Pack(w.src.Tensor)
	if err := w.copy(w.staging, w.src.Object, c); err != nil {
		return err
	}
	return q.Add(Item[Q]{Host: run(hostcopy.Unpack(w.dst.Tensor, w.dst.At, w.staging.HostAt(0)))})
}
