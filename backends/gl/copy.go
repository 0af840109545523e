//go:build gl && linux && cgo

package gl

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Copy copies within the context's buffers and between them and host memory.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	q, p, todo, err := devicebase.BeginCopy[*queue](ctx, &d.Device, s, dst, src, d.operandOf)
	if err != nil || !todo {
		return err
	}
	defer d.Drop()
	return d.submit(ctx, q, []*core.Tensor{dst}, []*core.Tensor{src}, d.copyWork(p.Dst, p.Src))
}

// submit does work on tensors, in the order of a stream, or in the calling goroutine if q is nil.
func (d *device) submit(ctx context.Context, q *queue, writes, reads []*core.Tensor, work func(*job) error) error {
	if q == nil {
		return d.workHere(ctx, writes, reads, work)
	}
	return stream.Submit(ctx, q, writes, reads, func() error {
		return q.Enqueue(func() error { return d.perform(context.Background(), work, func(*job, error) {}) })
	})
}

// operand is the memory of one tensor of a copy. Of the tensor it uses only what a closed tensor still knows.
type operand struct {
	*core.Tensor
	buffer *buffer // nil for host memory
	base   uintptr // the host address of the byte at offset 0; 0 if the host cannot reach it
}

func (s operand) Host() uintptr { return s.base }
func (s operand) Ours() bool    { return s.buffer != nil }

// operandOf finds the memory of a tensor. It fails for memory of another device.
func (d *device) operandOf(t *core.Tensor) (operand, error) {
	b, err := t.Buffer()
	if err != nil {
		return operand{}, err
	}
	m := b.Memory()
	if m.Device == d {
		if m.Handle == 0 { // of size 0
			return operand{Tensor: t}, nil
		}
		known := d.known(m.Handle)
		if known == nil { // freed since
			return operand{}, core.Errorf(core.ErrClosed, "gl", "Copy", "a tensor was closed during the call")
		}
		return operand{t, known, known.mapped}, nil
	}
	if !m.ID.Type.HostAccessible() {
		return operand{}, core.Errorf(core.ErrDevice, "gl", "Copy", "%v is neither memory of this context nor of the host: move it here by exchange.To", m.ID)
	}
	return operand{t, nil, m.Handle}, nil
}

// workHere works in the calling goroutine, after all earlier work on the tensors.
func (d *device) workHere(ctx context.Context, writes, reads []*core.Tensor, work func(*job) error) error {
	uses, err := stream.Acquire(ctx, writes, reads)
	if err != nil {
		return err
	}
	defer uses.Release()
	var before error // of the last writes of the tensors
	for _, dst := range writes {
		if e := dst.Ready(); e != nil && before == nil {
			_, before = e.Done()
		}
	}
	done := stream.NewEvent()
	uses.Note(d.served(done))
	return d.perform(ctx, work, func(j *job, err error) {
		if !j.began { // each holds what it held
			err = before
		}
		done.Complete(err)
	})
}
