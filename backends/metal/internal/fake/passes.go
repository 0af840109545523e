package fake

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
)

// use notes that the pass uses a buffer. d.mu is held.
func (e *encoder) use(d *Driver, o *object, writes bool) {
	if e.commands == nil {
		return
	}
	e.uses[o.id] = e.uses[o.id] || writes
	e.commands.keep(d, o.id)
	if o.device != e.commands.queue.device {
		d.report("%v is used by another GPU than its own", o)
	}
}

// bytesAt is memory of a buffer as the GPU sees it.
func (o *object) bytesAt(offset, size uint64) []byte {
	return unsafe.Slice((*byte)(pointer(o.address+uintptr(offset))), size)
}

// pointer is the address of memory that the buffer owns, or that the caller keeps for it.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// inside reports whether a range lies in the buffer.
func (o *object) inside(offset, size uint64) bool {
	return offset <= o.length && size <= o.length-offset
}

// CopyBuffer implements driver.Driver.
func (d *Driver) CopyBuffer(id, dst driver.ID, dstOffset uint64, src driver.ID, srcOffset, size uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, to, from := d.encoding(id, blit), d.get(dst, buffer), d.get(src, buffer)
	switch {
	case (dstOffset|srcOffset|size)%4 != 0:
		d.report("copyFromBuffer: of %d bytes from offset %d to offset %d: not multiples of 4", size, srcOffset, dstOffset)
	case size == 0 || !to.inside(dstOffset, size) || !from.inside(srcOffset, size):
		d.report("copyFromBuffer: of %d bytes from offset %d of %d to offset %d of %d", size, srcOffset, from.length, dstOffset, to.length)
	case dst == src && dstOffset < srcOffset+size && srcOffset < dstOffset+size:
		d.report("copyFromBuffer: of ranges of %v that overlap", to)
	default:
		e.use(d, to, true)
		e.use(d, from, false)
		e.works = append(e.works, func() { copy(to.bytesAt(dstOffset, size), from.bytesAt(srcOffset, size)) })
	}
}

// SetPipeline implements driver.Driver.
func (d *Driver) SetPipeline(id, p driver.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, o := d.encoding(id, compute), d.get(p, pipeline)
	e.pipeline = o
	if e.commands != nil {
		e.commands.keep(d, p)
	}
}

// SetBuffer implements driver.Driver. A function of dlx reads words of up to 16 bytes.
func (d *Driver) SetBuffer(id, b driver.ID, offset uint64, index int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, o := d.encoding(id, compute), d.get(b, buffer)
	if index < 0 || index > 1 || offset >= o.length || offset%16 != 0 {
		d.report("setBuffer: %v of %d bytes at offset %d as argument %d", o, o.length, offset, index)
		return
	}
	e.buffers[index] = binding{o, offset}
}

// SetBytes implements driver.Driver.
func (d *Driver) SetBytes(id driver.ID, data []byte, index int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.encoding(id, compute)
	if len(data) == 0 || len(data) > 4096 || index != 2 {
		d.report("setBytes: of %d bytes as argument %d", len(data), index)
	}
	e.bytes = append([]byte(nil), data...)
}
