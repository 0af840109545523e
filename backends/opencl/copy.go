//go:build opencl && linux && cgo

package opencl

import (
	"cmp"
	"context"

	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/backends/opencl/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Copy copies between memory of this device, which tensors of DLPack on it may
// be too, and memory that the host can reach. Nothing blocks the caller but a nil
// stream, and what the stream cannot wait for. It fails with ErrNotSupported for
// packed elements that do not lie on whole bytes in memory that the host does not reach.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	return shell.Copy(ctx, &d.Device, s, dst, src, d.sideOf, func(q *queue, to, from side) error {
		return d.copy(ctx, q, to, from)
	})
}

// copy does what Copy does with tensors that were checked. Its event also carries the
// errors of behind, work of the host on the same stream. All callers without a stream
// share the device's own queue, and wait for the work of others themselves.
func (d *device) copy(ctx context.Context, q *queue, dst, src side, behind ...*turn) error {
	w := &transfer{queue: cmp.Or(q, d.own), waits: q == nil, dst: dst, src: src, behind: behind}
	w.geometry, w.bits = strided.OfBits(dst.tensor, src.tensor)
	how, err := w.choose()
	switch {
	case err != nil:
		return err
	case how == nil && !w.atOnce:
		return d.stage(ctx, q, dst, src, w.sharePages())
	}
	writes, reads := []*core.Tensor{dst.tensor}, []*core.Tensor{src.tensor}
	switch {
	case w.atOnce:
		return w.copyHere(ctx, writes, reads)
	case w.waits:
		err = stream.SubmitAndWait(ctx, w.queue, writes, reads, how)
	default:
		err = stream.Submit(ctx, w.queue, writes, reads, how)
	}
	return cmp.Or(w.failed, err)
}

// copyHere copies in the calling goroutine.
func (w *transfer) copyHere(ctx context.Context, writes, reads []*core.Tensor) error {
	uses, err := stream.Acquire(ctx, writes, reads)
	if err != nil {
		return err
	}
	defer uses.Release()
	done := stream.NewEvent()
	uses.Note(done)
	err = w.run()
	done.Complete(err)
	return err
}

// side is where one tensor of a copy lies.
type side struct {
	tensor *core.Tensor
	mem    driver.Mem // 0 for memory of the host
	host   uintptr    // for the host, the byte that offsets count from; 0 where it cannot reach that
	known
}

func (s side) Host() uintptr { return s.host }
func (s side) Ours() bool    { return s.mem != 0 }

// pages is the memory of the host that a command which copies the bytes from low to
// high of the side may use.
func (s side) pages(low, high int64) span {
	if s.mem != 0 {
		return s.over
	}
	return span{s.host + uintptr(low), s.host + uintptr(high)}
}

// sideOf finds out about a tensor, or refuses one on another device.
func (d *device) sideOf(t *core.Tensor) (side, error) {
	m, host, err := d.Locate(t)
	if err != nil {
		return side{}, err
	}
	if host {
		return side{tensor: t, host: m.Handle}, nil
	}
	s := side{tensor: t, mem: driver.Mem(m.Handle)}
	if m.Handle != 0 {
		s.known, err = d.lookUp("Copy", s.mem)
		s.host = s.known.host
	}
	return s, err
}
