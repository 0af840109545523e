//go:build webgpu && linux && cgo

package webgpu

import (
	"cmp"
	"errors"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
)

// upload copies from the host, by way of buffers that are mapped. If the destination has gaps, a shader distributes the elements from a
// temporary buffer.
func (d *device) upload(dst, src operand, c copyplan.Copy) error {
	if dense(c) {
		return d.write(dst.buffer, src.base, c)
	}
	gather, bits := copyplan.Pack(src.Tensor)
	scatter, more := copyplan.Unpack(dst.Tensor)
	if bits || more {
		return d.noBits()
	}
	temporary, err := d.spares.take(d, wgpu.Memory, gather.Size())
	if err != nil {
		return err
	}
	defer d.spares.giveBack(temporary)
	if err := d.write(temporary, src.base, gather); err != nil {
		return err
	}
	return wait(d.move(dst.buffer, temporary, scatter))
}

// dense reports whether the destination has no gaps.
func dense(c copyplan.Copy) bool {
	r := c.Range()
	return r.DstHigh-r.DstLow == c.Size()
}

// write copies from the host to a dense destination.
func (d *device) write(dst *buffer, host uintptr, c copyplan.Copy) error {
	if words(c.Range().DstHigh) > dst.size { // before anything is written
		return d.noWholeWords()
	}
	w := writer{device: d, dst: dst}
	for part := range c.Chunks(copyplan.Destination, piece) {
		if err := w.put(host, part); err != nil {
			return w.end(err)
		}
	}
	return w.end(nil)
}

// writer copies from the host to a buffer. While the host fills one staging buffer, the device empties the one before. Its owner calls
// end.
type writer struct {
	device  *device
	dst     *buffer
	staging *buffer    // that of the last part
	work    *wgpu.Work // on it
}

// put copies a part, whose destination is dense. The host has made its copy when put returns.
func (w *writer) put(host uintptr, c copyplan.Copy) error {
	at, n := c.Range().DstLow, c.Size()
	skew := at % unit // so that whole words of the destination are whole words in the staging buffer
	staging, err := w.device.fill(words(skew+n), func(base uintptr) error { return runCopy(base+uintptr(skew-at), host, c) })
	if err != nil {
		return err
	}
	r := recording{device: w.device}
	defer r.giveBack()
	var work *wgpu.Work
	if err = r.place(w.dst, at, n, staging); err == nil {
		work, err = r.submit()
	}
	if err != nil {
		w.device.spares.giveBack(staging)
		return err
	}
	w.drop() // the next part takes that buffer, and maps it when the device has emptied it
	w.staging, w.work = staging, work
	return nil
}

// drop gives the staging buffer back.
func (w *writer) drop() {
	if w.staging != nil {
		w.work.Drop()
		w.device.spares.giveBack(w.staging)
		w.staging = nil
	}
}

// end waits for the device, and adds its error to err.
func (w *writer) end(err error) error {
	if w.staging == nil {
		return err
	}
	err = errors.Join(err, wait(w.work, nil))
	w.device.spares.giveBack(w.staging)
	return err
}

// place adds the copy of n bytes from a staging buffer, where they begin at at%unit, to dst from at on. Words that also have bytes of
// others are the shader's, which cannot read the staging buffer.
func (r *recording) place(dst *buffer, at, n int64, staging *buffer) error {
	base, end := at-at%unit, at+n
	first, last := words(at), end&^(unit-1)
	if first < last {
		r.copies([]transfer{{dst: dst.handle, src: staging.handle, to: first, from: first - base, size: last - first}})
	}
	for _, edge := range [][2]int64{{at, min(first, end)}, {max(first, last), end}} {
		low, high := edge[0], edge[1]
		if low >= high {
			continue
		}
		word := low &^ (unit - 1)
		temporary, err := r.take(wgpu.Memory, unit)
		if err != nil {
			return err
		}
		r.copies([]transfer{{dst: temporary.handle, src: staging.handle, from: word - base, size: unit}})
		if err := r.move(dst, temporary, copyplan.Copy{Elem: high - low, Dst: low, Src: low - word}); err != nil {
			return err
		}
	}
	return nil
}

// download copies to the host, which picks the elements out of buffers that are mapped. If it cannot, a shader gathers them in a
// temporary buffer first.
func (d *device) download(dst, src operand, c copyplan.Copy) error {
	_, contiguous := c.Contiguous()
	if contiguous || d.picks {
		if list := picked(c, copyplan.Destination, src.buffer.size); len(list) > 0 {
			return d.read(src.buffer, list, func(host uintptr, pick copyplan.Copy) error { return runCopy(dst.base, host, pick) })
		}
	}
	gather, bits := copyplan.Pack(src.Tensor)
	scatter, more := copyplan.Unpack(dst.Tensor)
	if bits || more {
		return d.noBits()
	}
	temporary, err := d.spares.take(d, wgpu.Memory, gather.Size())
	if err != nil {
		return err
	}
	defer d.spares.giveBack(temporary)
	if err := wait(d.move(temporary, src.buffer, gather)); err != nil {
		return err
	}
	list := picked(scatter, copyplan.Source, temporary.size) // never empty: there are no gaps
	return d.read(temporary, list, func(host uintptr, pick copyplan.Copy) error { return runCopy(dst.base, host, pick) })
}

// pickedWithin returns the parts of a copy between buffers, or within one, that the host makes; none if the device makes it, or refuses
// it since dst ends within a word.
func (d *device) pickedWithin(dst, src *buffer, c copyplan.Copy) []part {
	if !d.picks || !dense(c) || words(c.Range().DstHigh) > dst.size {
		return nil
	}
	if _, contiguous := c.Contiguous(); plain(c) && (contiguous || dst.handle != src.handle) {
		return nil
	}
	return picked(c, copyplan.Destination, src.size)
}

// pickWithin copies between buffers, or within one, by the host; by shader if there is no memory to map.
func (d *device) pickWithin(dst, src *buffer, list []part, shader func() error) error {
	w := writer{device: d, dst: dst}
	err := d.read(src, list, w.put)
	var failed *core.Error
	nothingWritten := w.staging == nil
	if nothingWritten && errors.Is(err, core.ErrOutOfMemory) && errors.As(err, &failed) && failed.Call == "wgpuDeviceCreateBuffer" {
		return shader()
	}
	return w.end(err)
}

// read lets the device copy what each part needs to a buffer that is mapped, and calls f with its host address. Meanwhile the device
// copies for the next part.
func (d *device) read(src *buffer, list []part, f func(host uintptr, pick copyplan.Copy) error) (err error) {
	var last *readback
	end := func(pick copyplan.Copy) {
		if last == nil {
			return
		}
		use := func(host uintptr) error { return f(host, pick) }
		if err != nil {
			use = func(uintptr) error { return nil }
		}
		err = errors.Join(err, d.endRead(last, use))
	}
	var pick copyplan.Copy // of last
	for _, p := range list {
		next, failed := d.beginRead(p.size, func(e *wgpu.Encoder, into wgpu.Handle) {
			for to, from := range p.read.Pieces() {
				e.Copy(into, to, src.handle, from, p.read.Elem)
			}
		})
		err = failed
		end(pick)
		if last, pick = next, p.pick; err != nil {
			break
		}
	}
	end(pick)
	return err
}

// readback is a buffer that the device fills and the host reads.
type readback struct {
	*buffer
	copies, mapping *wgpu.Work // the library waits for brief copies, and not for a mapping
	size            int64
}

// beginRead submits copies into a buffer, which record records, and begins to map size bytes of it. The caller calls endRead.
func (d *device) beginRead(size int64, record func(e *wgpu.Encoder, into wgpu.Handle)) (*readback, error) {
	b, err := d.spares.take(d, wgpu.Readback, size)
	if err != nil {
		return nil, err
	}
	x := &readback{buffer: b, size: size}
	x.copies, err = d.native.Submit("wgpuCommandEncoderCopyBufferToBuffer", func(e *wgpu.Encoder) { record(e, b.handle) })
	if err == nil {
		if x.mapping, err = d.native.Map(b.handle, b.usage, size); err != nil {
			x.copies.Drop()
		}
	}
	if err != nil {
		release(b.handle) // it may be mapped
		return nil, err
	}
	return x, nil
}

// endRead calls f with the host address of what was copied, and gives the buffer back.
func (d *device) endRead(x *readback, f func(host uintptr) error) error {
	if err := cmp.Or(wait(x.copies, nil), wait(x.mapping, nil)); err != nil {
		release(x.handle) // it may be mapped, and Unmap fails if it is not
		return err
	}
	defer d.spares.giveBack(x.buffer)
	return x.whileMapped(x.size, f)
}

// fill returns a buffer of at least size bytes, which f has filled by its host address. The caller gives it back.
func (d *device) fill(size int64, f func(host uintptr) error) (*buffer, error) {
	b, err := d.spares.take(d, wgpu.Staging, size)
	if err != nil {
		return nil, err
	}
	if err := wait(d.native.Map(b.handle, b.usage, size)); err != nil {
		release(b.handle) // as in endRead
		return nil, err
	}
	if err := b.whileMapped(size, f); err != nil {
		d.spares.giveBack(b)
		return nil, err
	}
	return b, nil
}

// whileMapped calls f with the host address of a mapped buffer, and ends the mapping.
func (b *buffer) whileMapped(size int64, f func(host uintptr) error) error {
	defer wgpu.Unmap(b.handle)
	host, err := wgpu.Mapped(b.handle, b.usage, size)
	if err != nil {
		return err
	}
	return f(host)
}
