//go:build webgpu && linux && cgo

package webgpu

import (
	"errors"
	"runtime"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// copyWork chooses how to copy, and returns a function that enqueues the work.
func (d *device) copyWork(dst, src operand) (func(*stream.Queue) error, error) {
	if dst.buffer == nil && src.buffer == nil {
		k := hostcopy.Between(dst.Tensor, src.Tensor, dst.base, src.base)
		return onHost(func() error { return run(k) }), nil
	}
	c, err := copyplan.Of(dst.Tensor, src.Tensor)
	if err != nil {
		return nil, err
	}
	switch {
	case dst.buffer == nil:
		return onHost(func() error { return d.download(dst, src, c) }), nil
	case src.buffer == nil:
		return onHost(func() error { return d.upload(dst, src, c) }), nil
	default:
		temporary, steps := int64(0), []copyplan.Copy{c}
		if dst.buffer.handle == src.buffer.handle {
			gather, bits := copyplan.Pack(src.Tensor)
			scatter, more := copyplan.Unpack(dst.Tensor)
			if bits || more {
				return nil, d.noBits()
			}
			temporary, steps = src.NumBytes(), []copyplan.Copy{gather, scatter}
		}
		for _, step := range steps {
			if err := d.compile(step); err != nil {
				return nil, err
			}
		}
		return onDevice(temporary, func() (*wgpu.Work, error) { return d.within(dst.buffer, src.buffer, temporary, steps) }), nil
	}
}

// smallCopy is how many bytes are copied on the goroutine of a caller without a stream.
const smallCopy = 64 << 10

// small returns the submission of a small contiguous copy that WebGPU makes by one call, to a buffer; nil for every other copy.
func (d *device) small(dst, src operand) func() (*wgpu.Work, error) {
	if dst.buffer == nil || dst.buffer == src.buffer || src.NumBytes() > smallCopy {
		return nil
	}
	c, err := copyplan.Of(dst.Tensor, src.Tensor)
	if err != nil {
		return nil // as copyWork says
	}
	n, contiguous := c.Contiguous()
	if !contiguous || (n|c.Dst)%unit != 0 {
		return nil
	}
	if src.buffer == nil {
		return func() (*wgpu.Work, error) {
			if err := d.native.Write(dst.buffer.handle, c.Dst, src.base+uintptr(c.Src), n); err != nil {
				return nil, err
			}
			return d.native.Submit("wgpuQueueSubmitForIndex", func(*wgpu.Encoder) {})
		}
	}
	if c.Src%unit != 0 {
		return nil
	}
	return func() (*wgpu.Work, error) {
		return d.native.Submit("wgpuCommandEncoderCopyBufferToBuffer", func(e *wgpu.Encoder) {
			e.Copy(dst.buffer.handle, c.Dst, src.buffer.handle, c.Src, n)
		})
	}
}

// scratch returns the address of n bytes that stay where they are until free is called.
func scratch(n int64) (at uintptr, free func()) {
	b := make([]byte, n)
	var pin runtime.Pinner
	pin.Pin(&b[0])
	return uintptr(unsafe.Pointer(&b[0])), pin.Unpin
}

// run copies in as many goroutines as Go runs at a time.
func run(j hostcopy.Job) error { return j.Run(runtime.GOMAXPROCS(0)) }

const (
	// piece is how much is on its way between host and device at a time, twice.
	piece = 16 << 20
	// unit divides all offsets and sizes of WebGPU's own copies (COPY_BUFFER_ALIGNMENT).
	unit = 4
	// Up to fewPieces, or from bigPiece bytes a piece, plain copies are as fast as a shader.
	fewPieces = 16
	bigPiece  = 4 << 10
	// constantsRoom is how far the constants of two dispatches are apart: no device needs a larger alignment.
	constantsRoom = 256
)

// upload copies from the host. What the device cannot copy by itself goes to a temporary buffer, from where a shader
// copies it.
func (d *device) upload(dst, src operand, c copyplan.Copy) error {
	n, contiguous := c.Contiguous()
	if contiguous && c.Dst%unit == 0 && n%unit == 0 {
		return d.write(dst.buffer, c.Dst, src.base+uintptr(c.Src), n)
	}
	from := src.base + uintptr(c.Src)
	scatter := c
	scatter.Src = 0
	if !contiguous {
		var bits bool
		if scatter, bits = copyplan.Unpack(dst.Tensor); bits {
			return d.noBits()
		}
		n = src.NumBytes()
		packed, free := scratch(n)
		defer free()
		from = packed
		if err := run(hostcopy.Pack(from, src.Tensor, src.base)); err != nil {
			return err
		}
	}
	temporary, err := d.spares.take(d, wgpu.Memory, n)
	if err != nil {
		return err
	}
	defer d.spares.giveBack(temporary)
	if err := d.write(temporary, 0, from, n&^(unit-1)); err != nil {
		return err
	}
	if rest := n % unit; rest > 0 { // WebGPU would read beyond the end
		to, free := scratch(unit)
		defer free()
		if err := hostcopy.Small(to, from+uintptr(n-rest), rest); err != nil {
			return err
		}
		if err := d.native.Write(temporary.handle, n-rest, to, unit); err != nil {
			return err
		}
	}
	return wait(d.move(dst.buffer, temporary, scatter))
}

// write copies n bytes at a host address to a buffer. at and n are multiples of unit.
func (d *device) write(b *buffer, at int64, host uintptr, n int64) (err error) {
	var before *wgpu.Work // at most two pieces are on their way
	for done := int64(0); done < n && err == nil; {
		size := min(piece, n-done)
		if err = d.native.Write(b.handle, at+done, host+uintptr(done), size); err != nil {
			break
		}
		done += size
		var w *wgpu.Work
		if w, err = d.native.Submit("wgpuQueueSubmitForIndex", func(*wgpu.Encoder) {}); err != nil {
			break
		}
		if before != nil {
			err = wait(before, nil)
		}
		before = w
	}
	if before != nil {
		err = errors.Join(err, wait(before, nil))
	}
	return err
}

// download copies to the host: through a buffer that is mapped. A shader gathers elements that are not contiguous in a
// temporary buffer first.
func (d *device) download(dst, src operand, c copyplan.Copy) error {
	if n, ok := c.Contiguous(); ok {
		return d.read(src.buffer, c.Src, n, func(host uintptr, first, size int64) error {
			return run(hostcopy.Bytes(dst.base+uintptr(c.Dst+first), host, size))
		})
	}
	gather, bits := copyplan.Pack(src.Tensor)
	if bits {
		return d.noBits()
	}
	n := src.NumBytes()
	temporary, err := d.spares.take(d, wgpu.Memory, n)
	if err != nil {
		return err
	}
	defer d.spares.giveBack(temporary)
	if err := wait(d.move(temporary, src.buffer, gather)); err != nil {
		return err
	}
	to, free := scratch(n)
	defer free()
	if err := d.read(temporary, 0, n, func(host uintptr, first, size int64) error {
		return run(hostcopy.Bytes(to+uintptr(first), host, size))
	}); err != nil {
		return err
	}
	return run(hostcopy.Unpack(dst.Tensor, dst.base, to))
}

// read calls f with the pieces of n bytes of a buffer: the host address of each, and where it lies among the n. While f
// runs, the device copies the next piece.
func (d *device) read(b *buffer, at, n int64, f func(host uintptr, first, size int64) error) (err error) {
	type flight struct {
		*readback
		skip, first, size int64 // multiples of unit are read: skip bytes before the first one
	}
	begin := func(first int64) (x *flight, err error) {
		x = &flight{skip: (at + first) % unit, first: first, size: min(piece, n-first)}
		whole := (x.skip + x.size + unit - 1) &^ (unit - 1)
		x.readback, err = d.beginRead(whole, func(e *wgpu.Encoder, into wgpu.Handle) {
			e.Copy(into, 0, b.handle, at+first-x.skip, whole)
		})
		return x, err
	}
	end := func(x *flight, f func(host uintptr, first, size int64) error) error {
		return d.endRead(x.readback, func(host uintptr) error { return f(host+uintptr(x.skip), x.first, x.size) })
	}
	var now *flight
	for first := int64(0); first < n && err == nil; first += piece {
		var next *flight
		if next, err = begin(first); err != nil {
			break
		}
		if now != nil {
			err = end(now, f)
		}
		now = next
	}
	if now != nil {
		if err != nil {
			f = func(uintptr, int64, int64) error { return nil }
		}
		err = errors.Join(err, end(now, f))
	}
	return err
}

// readback is a buffer that the device fills and the host reads.
type readback struct {
	*buffer
	mapping *wgpu.Work
	size    int64
}

// beginRead submits copies into a buffer, which record records, and begins to map size bytes of it. The caller calls endRead.
func (d *device) beginRead(size int64, record func(e *wgpu.Encoder, into wgpu.Handle)) (*readback, error) {
	b, err := d.spares.take(d, wgpu.Readback, size)
	if err != nil {
		return nil, err
	}
	x := &readback{buffer: b, size: size}
	err = d.native.SubmitBefore("wgpuCommandEncoderCopyBufferToBuffer", func(e *wgpu.Encoder) { record(e, b.handle) })
	if err == nil { // the mapping waits for the copies
		x.mapping, err = d.native.Map(b.handle, b.usage, size)
	}
	if err != nil {
		release(b.handle) // it may be mapped
		return nil, err
	}
	return x, nil
}

// endRead calls f with the host address of what was copied, and gives the buffer back.
func (d *device) endRead(x *readback, f func(host uintptr) error) error {
	if err := wait(x.mapping, nil); err != nil {
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

// within submits a copy between two buffers, which is one step, or within one: by way of a temporary buffer, in two steps.
func (d *device) within(dst, src *buffer, temporary int64, steps []copyplan.Copy) (*wgpu.Work, error) {
	if len(steps) == 1 {
		return d.move(dst, src, steps[0])
	}
	r := recording{device: d}
	defer r.giveBack()
	packed, err := r.take(wgpu.Memory, temporary)
	if err == nil {
		err = r.move(packed, src, steps[0])
	}
	if err == nil {
		err = r.move(dst, packed, steps[1])
	}
	if err != nil {
		return nil, err
	}
	return r.submit()
}

func (d *device) noBits() error {
	return d.Errorf(core.ErrNotSupported, "Copy", "elements of fewer than 8 bits do not lie on whole bytes: copy on the host")
}

// plain reports whether WebGPU copies c by few copies of its own.
func plain(c copyplan.Copy) bool {
	if c.Count() > fewPieces && c.Elem < bigPiece {
		return false
	}
	steps := c.Elem | c.Dst | c.Src
	for _, a := range c.Axes {
		steps |= a.Dst | a.Src
	}
	return steps%unit == 0
}

// move submits a copy between two buffers.
func (d *device) move(dst, src *buffer, c copyplan.Copy) (*wgpu.Work, error) {
	r := recording{device: d}
	defer r.giveBack()
	if err := r.move(dst, src, c); err != nil {
		return nil, err
	}
	return r.submit()
}

// compile compiles the shaders that move needs. That takes some 20 ms, for which the submission would hold up others that enqueue
// work on the stream.
func (d *device) compile(c copyplan.Copy) error {
	if plain(c) {
		return nil
	}
	return d.held("Copy", func() error {
		for p := range gpucopy.Plan(c, d.limits) {
			if _, err := d.pipeline(p.Shader, p.Shader.WGSL); err != nil {
				return err
			}
		}
		return nil
	})
}

// held calls f while the device cannot be closed.
func (d *device) held(call string, f func() error) error {
	if err := d.Hold(call); err != nil {
		return err
	}
	defer d.Drop()
	return f()
}

// pipeline returns the compiled shader of a key, and compiles it on first use.
func (d *device) pipeline(key gpucopy.Shader, source func() string) (wgpu.Handle, error) {
	d.pipelines.Lock()
	defer d.pipelines.Unlock()
	if p, ok := d.pipelines.made[key]; ok {
		return p, nil
	}
	p, err := d.native.NewPipeline(source())
	if err == nil {
		d.pipelines.made[key] = p
	}
	return p, err
}
