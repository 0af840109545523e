//go:build webgpu && linux && cgo

package webgpu

import (
	"runtime"

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
		temporary, steps, err := d.steps(dst, src, c)
		submit := func() (*wgpu.Work, error) { return d.within(dst.buffer, src.buffer, temporary, steps) }
		if list := d.pickedWithin(dst.buffer, src.buffer, c); len(list) > 0 {
			return onHost(func() error {
				return d.pickWithin(dst.buffer, src.buffer, list, func() error {
					if err != nil {
						return err
					}
					return wait(submit())
				})
			}), nil
		}
		if err != nil {
			return nil, err
		}
		for _, step := range steps {
			if err := d.compile(step); err != nil {
				return nil, err
			}
		}
		return onDevice(temporary, submit), nil
	}
}

// steps returns the steps of within, and the size of the temporary buffer between them.
func (d *device) steps(dst, src operand, c copyplan.Copy) (temporary int64, steps []copyplan.Copy, err error) {
	if dst.buffer.handle != src.buffer.handle {
		return 0, []copyplan.Copy{c}, nil
	}
	if n, contiguous := c.Contiguous(); contiguous { // in whatever order the elements are
		return n, []copyplan.Copy{{Elem: n, Src: c.Src}, {Elem: n, Dst: c.Dst}}, nil
	}
	gather, bits := copyplan.Pack(src.Tensor)
	scatter, more := copyplan.Unpack(dst.Tensor)
	if bits || more {
		return 0, nil, d.noBits()
	}
	return gather.Size(), []copyplan.Copy{gather, scatter}, nil
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

// run copies in as many goroutines as Go runs at a time.
func run(j hostcopy.Job) error { return j.Run(runtime.GOMAXPROCS(0)) }

// runCopy copies between two addresses of the host, in as many goroutines.
func runCopy(dst, src uintptr, c copyplan.Copy) error {
	return hostcopy.Run(dst, src, c, false, runtime.GOMAXPROCS(0))
}

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
