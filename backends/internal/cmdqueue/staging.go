package cmdqueue

import (
	"slices"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/copykernel"
	"github.com/dlx-go/dlx/backends/internal/strided"
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
// as memory of its users.
func (d *Device[Q, O]) takeStaging(size int64) (O, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	for i, o := range d.staging {
		if o.Bytes() >= size {
			d.staging = slices.Delete(d.staging, i, i+1)
			d.lent++
			return o, nil
		}
	}
	o, err := d.api.NewStaging(blockpool.RoundUp(size, minStaging))
	if err == nil {
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

// uploadPieces lets the host fill one half while the device empties the other.
func (w *work[Q, O]) uploadPieces(q *Queue[Q]) error {
	used := [2]uint64{q.next, q.next} // the item that emptied each half last
	return staging.Pieces(w.geometry.Size(), func(done int64, half int, n int64) error {
		room := int64(half) * staging.PieceBytes
		fill := copykernel.Bytes(w.staging.HostAt(room), w.src.At+uintptr(w.geometry.Src+done), n)
		if err := q.Add(Item[Q]{Early: true, After: used[half], Host: run(fill)}); err != nil {
			return err
		}
		err := w.copy(w.dst.Object, w.staging, strided.Copy{Elem: n, Dst: w.geometry.Dst + done, Src: room})
		used[half] = q.next
		return err
	})
}

// downloadPieces lets the device fill one half while the host empties the other.
func (w *work[Q, O]) downloadPieces(q *Queue[Q]) error {
	var empty *Item[Q] // the half that was filled last
	err := staging.Pieces(w.geometry.Size(), func(done int64, half int, n int64) error {
		room := int64(half) * staging.PieceBytes
		if err := w.copy(w.staging, w.src.Object, strided.Copy{Elem: n, Dst: room, Src: w.geometry.Src + done}); err != nil {
			return err
		}
		filled := q.next
		if empty != nil {
			if err := q.Add(*empty); err != nil {
				return err
			}
		}
		job := copykernel.Bytes(w.dst.At+uintptr(w.geometry.Dst+done), w.staging.HostAt(room), n)
		empty = &Item[Q]{Early: true, After: filled, Host: run(job)}
		return nil
	})
	if err != nil {
		return err
	}
	if err := q.Add(*empty); err != nil {
		return err
	}
	return q.Add(Item[Q]{Host: func() error { return nil }}) // done when the host is
}

// uploadPacked lets the host pack the elements, and the device distribute them.
func (w *work[Q, O]) uploadPacked(q *Queue[Q]) error {
	if err := q.Add(Item[Q]{Host: run(copykernel.Pack(w.staging.HostAt(0), w.src.Tensor, w.src.At))}); err != nil {
		return err
	}
	c, _ := strided.Unpack(w.dst.Tensor)
	return w.copy(w.dst.Object, w.staging, c)
}

// downloadPacked lets the device pack the elements, and the host distribute them.
func (w *work[Q, O]) downloadPacked(q *Queue[Q]) error {
	c, _ := strided.Pack(w.src.Tensor)
	if err := w.copy(w.staging, w.src.Object, c); err != nil {
		return err
	}
	return q.Add(Item[Q]{Host: run(copykernel.Unpack(w.dst.Tensor, w.dst.At, w.staging.HostAt(0)))})
}
