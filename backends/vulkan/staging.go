//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/backends/internal/copykernel"
	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
)

// stage copies between the host and memory that the host cannot reach, through staging memory that both can:
// in pieces if both tensors are contiguous, else packed and as a whole.
func (w work) stage(ctx context.Context, q *queue, plain bool) error {
	d := w.device
	size := w.dst.tensor.NumBytes()
	if plain {
		size = min(size, 2*staging.PieceBytes)
	}
	o, err := d.takeStaging(size)
	if err != nil {
		return err
	}
	err = w.enqueue(ctx, q, func(q *queue) error {
		switch upload := w.src.object == nil; {
		case plain && upload:
			return w.uploadPieces(q, o)
		case plain:
			return w.downloadPieces(q, o)
		case upload:
			return w.uploadPacked(q, o)
		default:
			return w.downloadPacked(q, o)
		}
	})
	d.giveStagingBackAfter(q, w.here, o)
	return err
}

// giveStagingBackAfter gives staging memory back when the work of q is done. lent says that q is the device's own, which
// the device destroys.
func (d *device) giveStagingBackAfter(q *queue, lent bool, o *object) {
	if e, _ := q.Record(); e != nil {
		d.Reaper.After([]core.Event{e}, func() { d.giveStagingBack(o) })
		return
	}
	if lent { // the device is lost: nothing is enqueued any more
		q.rest()
		d.drain()
	} else { // the queue is closed or lost
		_ = q.Close() // waits for its work, as whoever is closing it does
	}
	d.giveStagingBack(o)
}

// keptStaging is how many pieces of staging memory are kept for later copies; keptSmallStaging is the same
// for pieces of the smallest size.
const keptStaging, keptSmallStaging = 4, 64

// takeStaging lends memory of at least size bytes that device and host can reach. It belongs to the device
// and does not count as memory of its users.
func (d *device) takeStaging(size int64) (*object, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	for i, o := range d.staging {
		if o.size >= size {
			d.staging = slices.Delete(d.staging, i, i+1)
			d.lent++
			return o, nil
		}
	}
	o, err := d.newObject(request{size: roundUp(size, minStaging), kind: visible})
	if err == nil {
		d.lent++
	}
	return o, err
}

// minStaging is the smallest size of staging memory, so that small copies can reuse each other's.
const minStaging = 64 << 10

func (d *device) giveStagingBack(o *object) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if len(d.staging) < keptStaging || o.size == minStaging && len(d.staging) < keptSmallStaging {
		d.staging = append(d.staging, o)
	} else {
		d.destroy(o)
	}
	d.lent--
	d.idle.Broadcast()
}

// at is the host address of a byte of the object.
func (o *object) at(offset int64) uintptr { return o.host + uintptr(offset) }

func (w work) uploadPieces(q *queue, s *object) error {
	var used [2]uint64 // the item that emptied each half last
	used[0], used[1] = q.next, q.next
	total, _ := w.geometry.Contiguous()
	return staging.Pieces(total, func(done int64, half int, n int64) error {
		room := int64(half) * staging.PieceBytes
		fill := copykernel.Bytes(s.at(room), w.src.host+uintptr(w.geometry.Src+done), n)
		err := q.add(item{early: true, after: used[half], host: run(fill)})
		if err != nil {
			return err
		}
		err = q.command(w.dst.object.operand(), s.operand(),
			[]driver.Region{{Src: room, Dst: w.geometry.Dst + done, Size: n}}, nil)
		used[half] = q.next
		return err
	})
}

// downloadPieces lets the device fill one half while the host empties the other.
func (w work) downloadPieces(q *queue, s *object) error {
	empty := func() error { return nil }
	total, _ := w.geometry.Contiguous()
	err := staging.Pieces(total, func(done int64, half int, n int64) error {
		room := int64(half) * staging.PieceBytes
		err := q.command(s.operand(), w.src.object.operand(),
			[]driver.Region{{Src: w.geometry.Src + done, Dst: room, Size: n}}, nil)
		if err != nil {
			return err
		}
		if err := empty(); err != nil {
			return err
		}
		job, filled := copykernel.Bytes(w.dst.host+uintptr(w.geometry.Dst+done), s.at(room), n), q.next
		empty = func() error { return q.add(item{early: true, after: filled, host: run(job)}) }
		return nil
	})
	if err == nil {
		err = empty()
	}
	if err != nil {
		return err
	}
	return q.add(item{host: func() error { return nil }}) // done when the host is
}

// uploadPacked lets the host pack the elements, and the device distribute them.
func (w work) uploadPacked(q *queue, s *object) error {
	job := copykernel.Pack(s.at(0), w.src.tensor, w.src.host)
	if err := q.add(item{host: run(job)}); err != nil {
		return err
	}
	c, _ := strided.Unpack(w.dst.tensor)
	return w.onDevice(q, c, w.dst.object, s)
}

// downloadPacked lets the device pack the elements, and the host distribute them.
func (w work) downloadPacked(q *queue, s *object) error {
	c, _ := strided.Pack(w.src.tensor)
	if err := w.onDevice(q, c, s, w.src.object); err != nil {
		return err
	}
	return q.add(item{host: run(copykernel.Unpack(w.dst.tensor, w.dst.host, s.at(0)))})
}

// onDevice enqueues a copy by the device with another geometry.
func (w work) onDevice(q *queue, c strided.Copy, dst, src *object) error {
	w.geometry, w.dst.object, w.src.object = c, dst, src
	if w.fewRegions() {
		return w.regions(q)
	}
	return w.gather(q)
}
