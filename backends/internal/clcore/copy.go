//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"cmp"
	"context"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Copy copies between memory of this device, including tensors from DLPack on it, and memory that the host
// can reach. It blocks the caller only if the stream is nil, or while it waits for work that the stream
// cannot wait for. It fails with ErrNotSupported for packed elements that do not lie on whole bytes, if the
// host cannot reach the memory.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	q, p, todo, err := devicebase.BeginCopy[*queue](ctx, &d.Device, s, dst, src, d.operandOf)
	if err != nil || !todo {
		return err
	}
	defer d.Drop()
	return d.copy(ctx, q, p.Dst, p.Src)
}

// copy is Copy with checked operands. The event of the copy also reports the errors of tasks, work of the
// host on the same stream. All callers without a stream share the device's own queue, and wait for other work
// themselves.
func (d *device) copy(ctx context.Context, q *queue, dst, src operand, tasks ...*hostTask) error {
	w := d.newWork(q, dst, src)
	w.tasks = tasks
	if err := w.choose(); err != nil {
		return err
	}
	return w.submit(ctx)
}

// newWork returns the copy of checked operands, of which no way has been chosen. q is nil if the caller waits.
func (d *device) newWork(q *queue, dst, src operand) work {
	w := work{queue: cmp.Or(q, d.own), waits: q == nil, dst: dst, src: src}
	w.geometry, w.bits = copyplan.OfBits(dst.tensor, src.tensor)
	return w
}

// submit makes the copy in the way that was chosen.
func (w *work) submit(ctx context.Context) (err error) {
	writes, reads := []*core.Tensor{w.dst.tensor}, []*core.Tensor{w.src.tensor}
	switch {
	case w.way == staged:
		q := w.queue
		if w.waits {
			q = nil
		}
		return w.queue.device.stage(ctx, q, w.dst, w.src, w.sharePages())
	case w.way == inCaller:
		return stream.Do(ctx, writes, reads, w.run)
	case w.waits:
		err = stream.SubmitAndWait(ctx, w.queue, writes, reads, w.enqueue)
	default:
		err = stream.Submit(ctx, w.queue, writes, reads, w.enqueue)
	}
	return cmp.Or(w.failed, err)
}

// operand is the memory of one tensor of a copy.
type operand struct {
	tensor *core.Tensor
	mem    driver.Mem // 0 for host memory; in USM the address
	host   uintptr    // the host address of the byte that offsets count from; 0 if the host cannot reach it
	known
}

func (s operand) Host() uintptr { return s.host }
func (s operand) Ours() bool    { return s.mem != 0 }

// address is where offsets in USM and in host memory count from.
func (s operand) address() uintptr {
	if s.mem != 0 {
		return uintptr(s.mem)
	}
	return s.host
}

// pages is the host memory that a command may use when it copies the bytes from low to high of the operand.
func (s operand) pages(low, high int64) span {
	if s.mem != 0 {
		return s.over
	}
	return span{s.host + uintptr(low), s.host + uintptr(high)}
}

// operandOf finds the memory of a tensor. It fails for memory of another device.
func (d *device) operandOf(t *core.Tensor) (operand, error) {
	m, host, err := d.Locate(t)
	if err != nil {
		return operand{}, err
	}
	if host {
		return operand{tensor: t, host: m.Handle}, nil
	}
	s := operand{tensor: t, mem: driver.Mem(m.Handle)}
	if m.Handle != 0 {
		s.known, err = d.lookUp("Copy", s.mem)
		s.host = s.known.host
		// Of memory of the device with a known size, package core has checked that the tensor lies in it.
		if err == nil && (m.Device == nil || m.Size == core.UnknownSize) {
			err = d.inRoom(t, m.Handle, s.known)
		}
	}
	return s, err
}
