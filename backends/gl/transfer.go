//go:build gl && linux && cgo

package gl

import (
	"runtime"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/gl/internal/egl"
	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
)

// copyWork chooses how to copy, and returns the work. It returns when OpenGL is done.
func (d *device) copyWork(dst, src operand) func(*job) error {
	switch {
	case d.hostCopies(dst, src):
		return byHost(hostcopy.Between(dst.Tensor, src.Tensor, dst.base, src.base))
	case dst.buffer == nil:
		return func(j *job) error { return j.download(dst, src) }
	case src.buffer == nil:
		return func(j *job) error { return j.upload(dst, src) }
	default:
		return func(j *job) error { return j.within(dst, src) }
	}
}

// hostCopies reports whether the host copies in mapped memory. Within buffers it does so where OpenGL runs on a processor in
// any case.
func (d *device) hostCopies(dst, src operand) bool {
	return dst.base != 0 && src.base != 0 && (dst.buffer == nil || src.buffer == nil || d.info.software)
}

// byHost runs a job of the host on mapped memory when OpenGL is done with that memory. The mapping is
// coherent, so later commands see what the host wrote.
func byHost(k hostcopy.Job) func(*job) error {
	return func(j *job) error {
		if err := j.finish(); err != nil {
			return err
		}
		return j.host(k)
	}
}

// run copies in as many goroutines as Go runs at a time.
func run(j hostcopy.Job) error { return j.Run(runtime.GOMAXPROCS(0)) }

// within copies between two buffers.
func (j *job) within(dst, src operand) error {
	c, err := copyplan.Of(dst.Tensor, src.Tensor)
	if err != nil || !j.device.moves(c) {
		return j.bounce(dst, src)
	}
	if moved, err := j.move(dst.buffer, src.buffer, c); moved || err != nil {
		return err
	}
	return j.bounce(dst, src)
}

// upload copies from the host to a buffer that is not mapped. It copies contiguous elements directly. It
// packs others into a mapped buffer, and OpenGL copies from there.
func (j *job) upload(dst, src operand) error {
	c, bits := copyplan.Unpack(dst.Tensor)
	if bits || !j.device.moves(c) {
		return j.bounce(dst, src)
	}
	if n, first, ok := plain(dst, src); ok && !dst.buffer.fixed {
		return j.complete("glNamedBufferSubData", func() {
			egl.NamedBufferSubData(dst.buffer.name, first.Dst, n, src.base+uintptr(first.Src))
		})
	}
	staging, err := j.stage(dst.NumBytes())
	if err != nil {
		return err
	}
	if err := j.host(hostcopy.Pack(staging.mapped, src.Tensor, src.base)); err != nil {
		return err
	}
	if moved, err := j.move(dst.buffer, staging, c); moved || err != nil {
		return err
	}
	return j.bounce(dst, src)
}

// download is the reverse of upload.
func (j *job) download(dst, src operand) error {
	c, bits := copyplan.Pack(src.Tensor)
	if bits || !j.device.moves(c) {
		return j.bounce(dst, src)
	}
	if n, first, ok := plain(dst, src); ok {
		if err := j.finish(); err != nil { // so that the next call does not block the context's thread
			return err
		}
		return j.device.do(j.ctx, "glGetNamedBufferSubData", func() {
			egl.GetNamedBufferSubData(src.buffer.name, first.Src, n, dst.base+uintptr(first.Dst))
		})
	}
	staging, err := j.stage(src.NumBytes())
	if err != nil {
		return err
	}
	if moved, err := j.move(staging, src.buffer, c); err != nil {
		return err
	} else if !moved {
		return j.bounce(dst, src)
	}
	return j.host(hostcopy.Unpack(dst.Tensor, dst.base, staging.mapped))
}

// plain reports whether a copy is one of n contiguous bytes.
func plain(dst, src operand) (n int64, c copyplan.Copy, ok bool) {
	c, err := copyplan.Of(dst.Tensor, src.Tensor)
	if err != nil {
		return 0, c, false
	}
	n, ok = c.Contiguous()
	return n, c, ok
}

// bounce copies what OpenGL cannot copy, such as single bits, or copies slower than the host. The host copies
// in mapped copies of all bytes that each side spans.
func (j *job) bounce(dst, src operand) error {
	c, bits := copyplan.OfBits(dst.Tensor, src.Tensor)
	r, size := c.ByteRange(bits), c.Size()
	if bits {
		size /= 8 // rounded down: a part of a byte counts as a gap
	}
	from, err := j.mirror(&src, r.SrcLow, r.SrcHigh)
	if err != nil {
		return err
	}
	to, err := j.mirror(&dst, r.DstLow, r.DstHigh)
	if err != nil {
		return err
	}
	err = from.read()
	if err == nil && size < r.DstHigh-r.DstLow { // the bytes between the elements are written back too
		err = to.read()
	}
	if err == nil {
		err = j.finish() // the host reads and writes the memory
	}
	if err != nil {
		return err
	}
	if err := j.host(hostcopy.Between(dst.Tensor, src.Tensor, dst.base, src.base)); err != nil {
		return err
	}
	return to.writeBack()
}

// mirror is a mapped copy of a part of a buffer. It is empty if the host sees the memory itself.
type mirror struct {
	job       *job
	copy, of  *buffer
	low, size int64
}

// mirror sets the base of s to a mirror of the bytes from low to high, if the host does not see the memory.
func (j *job) mirror(s *operand, low, high int64) (*mirror, error) {
	if s.base != 0 {
		return &mirror{}, nil
	}
	staging, err := j.stage(high - low)
	if err != nil {
		return nil, err
	}
	s.base = staging.mapped - uintptr(low)
	return &mirror{j, staging, s.buffer, low, high - low}, nil
}

// read copies the buffer to the mirror.
func (m *mirror) read() error {
	if m.copy == nil {
		return nil
	}
	return m.job.complete("glCopyNamedBufferSubData", func() {
		gl.CopyNamedBufferSubData(m.of.name, m.copy.name, int(m.low), 0, int(m.size))
	})
}

// writeBack copies the mirror to the buffer.
func (m *mirror) writeBack() error {
	if m.copy == nil {
		return nil
	}
	return m.job.complete("glCopyNamedBufferSubData", func() {
		gl.CopyNamedBufferSubData(m.copy.name, m.of.name, 0, int(m.low), int(m.size))
	})
}
