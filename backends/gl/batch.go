//go:build gl && linux && cgo

package gl

import (
	"context"
	"runtime"

	"github.com/dlx-go/dlx/backends/gl/internal/egl"
	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
)

// CopyBatch makes all copies that need no staging memory in one piece of work: those of the host together, and those of
// OpenGL by one call on the context's thread for each direction, with one fence. All others are made one at a time.
func (d *device) CopyBatch(ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
	return devicebase.CopyBatch(ctx, &d.Device, s, dst, src, d.operandOf, func(q *queue, pairs []devicebase.Pair[operand]) error {
		var b batch
		for _, p := range pairs {
			if b.take(d, p.Dst, p.Src) {
				continue
			}
			if err := d.submit(ctx, q, []*core.Tensor{p.Dst.Tensor}, []*core.Tensor{p.Src.Tensor}, d.copyWork(p.Dst, p.Src)); err != nil {
				return err
			}
		}
		if len(b.writes) == 0 {
			return nil
		}
		return d.submit(ctx, q, b.writes, b.reads, b.work)
	})
}

// batch is copies that do not depend on each other, by who makes them.
type batch struct {
	writes, reads []*core.Tensor
	onHost        []hostcopy.Job
	ups, downs    []transfer
}

// transfer copies contiguous bytes between the host and a buffer.
type transfer struct {
	name     uint32
	at, size int64
	host     uintptr
}

// take takes a copy into the batch, unless it has to be made by itself.
func (b *batch) take(d *device, dst, src operand) bool {
	if d.hostCopies(dst, src) {
		b.onHost = append(b.onHost, hostcopy.Between(dst.Tensor, src.Tensor, dst.base, src.base))
	} else if !b.takeTransfer(d, dst, src) {
		return false
	}
	b.writes, b.reads = append(b.writes, dst.Tensor), append(b.reads, src.Tensor)
	return true
}

// takeTransfer takes a copy that [job.upload] or [job.download] makes by one call.
func (b *batch) takeTransfer(d *device, dst, src operand) bool {
	n, first, ok := plain(dst, src)
	switch {
	case !ok:
	case src.buffer == nil && !dst.buffer.fixed:
		if c, bits := copyplan.Unpack(dst.Tensor); !bits && d.moves(c) {
			b.ups = append(b.ups, transfer{dst.buffer.name, first.Dst, n, src.base + uintptr(first.Src)})
			return true
		}
	case dst.buffer == nil:
		if c, bits := copyplan.Pack(src.Tensor); !bits && d.moves(c) {
			b.downs = append(b.downs, transfer{src.buffer.name, first.Src, n, dst.base + uintptr(first.Dst)})
			return true
		}
	}
	return false
}

// work makes the copies.
func (b *batch) work(j *job) error {
	if len(b.onHost)+len(b.downs) > 0 {
		if err := j.finish(); err != nil {
			return err
		}
	}
	if len(b.onHost) > 0 {
		j.began = true
		if err := hostcopy.RunAll(b.onHost, runtime.GOMAXPROCS(0)); err != nil {
			return err
		}
	}
	if len(b.downs) > 0 {
		if err := j.device.do(j.ctx, "glGetNamedBufferSubData", func() {
			j.began = true
			for _, x := range b.downs {
				egl.GetNamedBufferSubData(x.name, x.at, x.size, x.host)
			}
		}); err != nil {
			return err
		}
	}
	if len(b.ups) == 0 {
		return nil
	}
	return j.complete("glNamedBufferSubData", func() {
		for _, x := range b.ups {
			egl.NamedBufferSubData(x.name, x.at, x.size, x.host)
		}
	})
}
