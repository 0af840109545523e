package flight

import (
	"context"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/dlx-go/dlx/core"
	dlxarrow "github.com/dlx-go/dlx/interop/arrow"
	"google.golang.org/grpc/mem"
)

// Report says what a Get or Put did.
type Report struct {
	Bytes   int64         `json:"bytes"`   // of the elements. Each was copied once in this process, or twice from gRPC's memory to a device
	Batches int64         `json:"batches"` // with elements
	Time    time.Duration `json:"time_ns"` // of the whole call
}

// sender sends tensors as frames.
type sender struct {
	call  string
	batch int64 // the most bytes of a batch with several rows
	limit int64 // the most bytes of a batch with one row
	pool  *bufferPool
}

// send sends a tensor. descriptor, if not nil, goes with the first frame. put sends a frame, and owns it.
func (s *sender) send(ctx context.Context, t *core.Tensor, descriptor []byte, put func(*frame) error) (Report, error) {
	var r Report
	k, err := newKind(s.call, t.DType(), t.Shape())
	if err != nil {
		return r, err
	}
	if err := k.checkRow(s.call, s.limit); err != nil {
		return r, err
	}
	if err := put(&frame{descriptor: descriptor, header: k.header()}); err != nil {
		return r, err
	}
	src := t
	if t.Rank() == 0 {
		if src, err = t.Expand(0); err != nil {
			return r, err
		}
		defer src.Close()
	}
	step := max(s.batch/k.rowBytes(), 1)
	var header []byte
	described := int64(0) // the rows of header
	for row := int64(0); row < k.rows; row += step {
		n := min(step, k.rows-row)
		part, err := src.Slice(0, row, row+n, 1)
		if err != nil {
			return r, err
		}
		body, err := s.fill(ctx, &k, part, n, func(elements []byte) error {
			if n == described {
				return nil
			}
			header, err = k.describe(ctx, elements, n)
			described = n
			return err
		})
		_ = part.Close()
		if err != nil {
			return r, err
		}
		f := &frame{header: header, body: mem.BufferSlice{body}}
		if err := put(f); err != nil {
			f.free()
			return r, err
		}
		r.Batches++
		r.Bytes += n * k.rowBytes()
	}
	return r, nil
}

// fill copies n rows to a buffer, and calls use with the bytes of the elements. The buffer is padded as the format asks for.
func (s *sender) fill(ctx context.Context, k *kind, src *core.Tensor, n int64, use func([]byte) error) (mem.Buffer, error) {
	size := int(n * k.rowBytes())
	p := s.pool.Get(padded(size))
	clear((*p)[size:])
	dst, err := tensorOn((*p)[:size], k.dtype, append([]int64{n}, k.typ.Shape()...))
	if err != nil {
		return nil, err
	}
	defer dst.Close()
	// After an error, a device may still write to the buffer, which then does not go back to the pool.
	if err := core.Convert(ctx, dst, src); err != nil {
		return nil, err
	}
	if err := use((*p)[:size]); err != nil {
		return nil, err
	}
	return mem.NewBuffer(p, s.pool), nil
}

// padded rounds the size of a buffer up, as arrow-go does.
func padded(n int) int { return (n + 7) &^ 7 }

// describe returns the description of a batch with n rows, whose elements are given.
func (k *kind) describe(ctx context.Context, elements []byte, n int64) ([]byte, error) {
	t, err := tensorOn(elements, carrier(k.dtype), append([]int64{n}, k.typ.Shape()...))
	if err != nil {
		return nil, err
	}
	defer t.Close()
	a, err := dlxarrow.ToFixedShape(ctx, t)
	if err != nil {
		return nil, err
	}
	defer a.Release()
	b := array.NewRecordBatch(k.schema(), []arrow.Array{a}, int64(a.Len()))
	defer b.Release()
	p, err := ipc.GetRecordBatchPayload(b)
	if err != nil {
		return nil, err
	}
	defer p.Release()
	meta := p.Meta()
	defer meta.Release()
	return append([]byte(nil), meta.Bytes()...), nil
}

// tensorOn returns a tensor on Go memory. The caller closes it.
func tensorOn(p []byte, dtype core.DType, shape []int64) (*core.Tensor, error) {
	whole, err := core.FromSlice(p)
	if err != nil {
		return nil, err
	}
	defer whole.Close()
	b, err := whole.Buffer()
	if err != nil {
		return nil, err
	}
	return core.NewTensor(b, core.Spec{DType: dtype, Shape: shape})
}

// bytesOf returns the elements of a row-major tensor as bytes. The caller closes the result.
func bytesOf(t *core.Tensor) (*core.Tensor, error) {
	b, err := t.Buffer()
	if err != nil {
		return nil, err
	}
	return core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{t.NumBytes()}, Offset: t.Offset() - b.Memory().Offset})
}
