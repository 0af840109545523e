package fake

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
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

// Dispatch implements driver.Driver.
func (d *Driver) Dispatch(id driver.ID, groups, threads [3]uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.encoding(id, compute)
	dst, src := e.buffers[0], e.buffers[1]
	var word int
	if e.pipeline != nil {
		_, _ = fmt.Sscanf(e.pipeline.name, "gather%d", &word)
	}
	size := uint64(threads[0]) * uint64(threads[1]) * uint64(threads[2])
	switch {
	case word == 0 || dst.object == nil || src.object == nil || len(e.bytes) != int(unsafe.Sizeof(gpucopy.Constants{})):
		d.report("dispatchThreadgroups: without a pipeline, buffers or constants")
		return
	case uint64(groups[0])*uint64(groups[1])*uint64(groups[2]) == 0 || size == 0 || size > uint64(d.config.Threads):
		d.report("dispatchThreadgroups:%v threadsPerThreadgroup:%v", groups, threads)
		return
	case threads != [3]uint32{gpucopy.GroupSize, 1, 1}:
		d.report("the kernels need threadgroups of %d threads, not of %v", gpucopy.GroupSize, threads)
	}
	var k gpucopy.Constants
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&k)), unsafe.Sizeof(k)), e.bytes)
	low, high := reach(k.DstFirst, k.DstStep, k.N)
	fits := func(b binding, low, high int64) bool {
		return low >= 0 && b.object.inside(b.offset, uint64(high+1)*uint64(word))
	}
	srcLow, srcHigh := reach(k.SrcFirst, k.SrcStep, k.N)
	if !fits(dst, low, high) || !fits(src, srcLow, srcHigh) {
		d.report("the kernel leaves its buffers: words %d to %d of %v, %d to %d of %v", low, high, dst.object, srcLow, srcHigh, src.object)
		return
	}
	e.use(d, dst.object, true)
	e.use(d, src.object, false)
	e.works = append(e.works, func() { gatherWords(k, uint64(word), dst, src) })
}

// reach returns the lowest and the highest word that a kernel uses on one side.
func reach(first int32, steps [gpucopy.MaxAxes]int32, n [gpucopy.MaxAxes]uint32) (low, high int64) {
	low, high = int64(first), int64(first)
	for i, s := range steps {
		if n[i] == 0 {
			return math.MinInt64, 0
		}
		if far := int64(s) * int64(n[i]-1); far < 0 {
			low += far
		} else {
			high += far
		}
	}
	return low, high
}

// gatherWords does what the kernel does, word by word.
func gatherWords(k gpucopy.Constants, word uint64, dst, src binding) {
	var at [gpucopy.MaxAxes]uint32
	to, from := int64(k.DstFirst), int64(k.SrcFirst)
	for {
		copy(dst.object.bytesAt(dst.offset+uint64(to)*word, word), src.object.bytesAt(src.offset+uint64(from)*word, word))
		i := 0
		for ; i < len(at); i++ {
			at[i]++
			to, from = to+int64(k.DstStep[i]), from+int64(k.SrcStep[i])
			if at[i] < k.N[i] {
				break
			}
			to, from = to-int64(k.DstStep[i])*int64(k.N[i]), from-int64(k.SrcStep[i])*int64(k.N[i])
			at[i] = 0
		}
		if i == len(at) {
			return
		}
	}
}
