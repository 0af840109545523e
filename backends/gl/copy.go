//go:build gl && linux && cgo

package gl

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Copy copies within the context's buffers and between them and host memory.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	return shell.Copy(ctx, &d.Device, s, dst, src, d.sideOf, func(q *queue, to, from side) error {
		work := d.transfer(to, from)
		if q == nil {
			return d.copyHere(ctx, dst, src, work)
		}
		return stream.Submit(ctx, q, []*core.Tensor{dst}, []*core.Tensor{src}, func() error {
			return q.Enqueue(func() error { return d.perform(context.Background(), work, func(*job, error) {}) })
		})
	})
}

// side is one end of a copy. Of the tensor only what it says of itself is used, which
// it does when it is closed, too.
type side struct {
	*core.Tensor
	buffer *buffer // nil for host memory
	base   uintptr // where the host sees the byte at offset 0; 0 if it does not
}

func (s side) Host() uintptr { return s.base }
func (s side) Ours() bool    { return s.buffer != nil }

// sideOf finds the memory of a tensor.
func (d *device) sideOf(t *core.Tensor) (side, error) {
	b, err := t.Buffer()
	if err != nil {
		return side{}, err
	}
	m := b.Memory()
	if m.Device == d {
		if m.Handle == 0 { // of size 0
			return side{Tensor: t}, nil
		}
		known := d.known(m.Handle)
		if known == nil { // freed since
			return side{}, core.Errorf(core.ErrClosed, "gl", "Copy", "a tensor was closed during the call")
		}
		return side{t, known, known.mapped}, nil
	}
	if !m.ID.Type.HostAccessible() {
		return side{}, core.Errorf(core.ErrDevice, "gl", "Copy", "%v is neither memory of this context nor of the host: exchange carries it here", m.ID)
	}
	return side{t, nil, m.Handle}, nil
}

// copyHere copies in the calling goroutine once all work before it is done.
func (d *device) copyHere(ctx context.Context, dst, src *core.Tensor, work func(*job) error) error {
	uses, err := stream.Acquire(ctx, []*core.Tensor{dst}, []*core.Tensor{src})
	if err != nil {
		return err
	}
	defer uses.Release()
	var before error // of the last write of dst
	if e := dst.Ready(); e != nil {
		_, before = e.Done()
	}
	done := stream.NewEvent()
	uses.Note(d.served(done))
	return d.perform(ctx, work, func(j *job, err error) {
		if !j.began { // dst holds what it held
			err = before
		}
		done.Complete(err)
	})
}
