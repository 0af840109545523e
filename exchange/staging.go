package exchange

import (
	"context"
	"sync"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange/internal/opened"
	"github.com/dlx-go/dlx/internal/staging"
)

// stagingBuffer is host memory as two devices know it.
type stagingBuffer struct {
	in  *core.Tensor // what the source's device writes
	out *core.Tensor // what the destination reads

	staged *core.Tensor // the part of a tensor that the buffer holds; nil if it is empty
	target *core.Tensor // where that goes

	kept opened.Staging // what in and out are tensors of, if the cache keeps it
}

// forget forgets what the buffer holds.
func (b *stagingBuffer) forget() {
	_, _ = b.staged.Close(), b.target.Close()
	b.staged, b.target = nil, nil
}

// release gives the buffer back. Work on it may be unfinished.
func (b *stagingBuffer) release() {
	b.forget()
	if b.kept.Own != nil {
		cache.GiveStaging(b.kept)
		return
	}
	_, _ = b.in.Close(), b.out.Close()
}

// stagingBuffer returns memory of at least size bytes that the host and one of the
// devices reach: the source's, else the destination's, else plain memory of the host.
func (r *run) stagingBuffer(ctx context.Context, size int64) (stagingBuffer, error) {
	if size <= staging.PieceBytes {
		if s := cache.TakeStaging(ctx, r.from.Device, staging.PieceBytes); s.Own != nil {
			return stagingBuffer{in: s.Own, out: s.View, kept: s}, nil
		}
		if s := cache.TakeStaging(ctx, r.dst, staging.PieceBytes); s.Own != nil {
			return stagingBuffer{in: s.View, out: s.Own, kept: s}, nil
		}
	}
	return plainBuffer(size)
}

// plainBuffers are slices of staging.PieceBytes. Fresh memory would cost as much as the copy.
var plainBuffers = sync.Pool{New: func() any { return make([]byte, staging.PieceBytes) }}

// plainBuffer makes a staging buffer of Go's memory.
func plainBuffer(size int64) (stagingBuffer, error) {
	bytes, pooled := []byte(nil), size == staging.PieceBytes
	if pooled {
		bytes = plainBuffers.Get().([]byte)
	} else {
		bytes = make([]byte, size)
	}
	t, err := core.FromSlice(bytes)
	if err != nil {
		return stagingBuffer{}, err
	}
	b, err := t.Buffer()
	if err != nil {
		return stagingBuffer{}, err
	}
	if pooled {
		privateCore.Attach(b, core.FreeFunc(func() { plainBuffers.Put(bytes) })) //nolint:staticcheck // SA6002: a slice header costs little beside its memory
	}
	view, err := t.Share()
	if err != nil {
		_ = t.Close()
		return stagingBuffer{}, err
	}
	return stagingBuffer{in: t, out: view}, nil
}
