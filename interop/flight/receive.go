package flight

import (
	"context"
	"errors"
	"io"

	"github.com/dlx-go/dlx/core"
)

// receiver makes a tensor of frames. It is for one tensor and one goroutine. The caller closes it.
type receiver struct {
	call   string
	device core.Device
	limit  int64 // the most bytes of the tensor
	// reserve takes bytes from a budget, or gives them back if n is negative, which never fails.
	reserve func(n int64) error
	// accept is told of the tensor before memory is allocated; may be nil.
	accept func(k *kind) error

	kind     kind
	stored   *core.Tensor // the rows in the order in which they are stored, as many as there is memory for
	capacity int64        // rows of stored
	rows     int64        // that have arrived
	reserved int64        // bytes
	target   target
	report   Report
}

// target is where the bytes of the rows go.
type target struct {
	whole   *core.Tensor // the bytes of the stored tensor
	host    []byte       // the same, if the host can access them
	release func()
	staging []byte // otherwise what a device copies from
}

// receive takes frames until get returns io.EOF, and returns the tensor, which the caller closes. rows is how many rows
// the sender has announced elsewhere, or unknown; it only avoids that the memory has to grow.
func (r *receiver) receive(ctx context.Context, rows int64, get func(*frame) error) (*core.Tensor, error) {
	var f frame
	defer f.free()
	for first := true; ; {
		err := get(&f)
		switch {
		case err == nil:
			err = f.err
		case errors.Is(err, io.EOF) && first:
			return nil, fail(core.ErrInvalid, r.call, "the stream ended without a schema")
		case errors.Is(err, io.EOF):
			return r.finish(ctx)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		switch {
		case first:
			first = false
			if r.kind, err = readSchema(r.call, f.header); err == nil {
				err = r.begin(ctx, rows)
			}
		case len(f.header) == 0 && f.body.Len() == 0: // metadata of the program
		default:
			err = r.take(ctx, &f)
		}
		if err != nil {
			return nil, err
		}
	}
}

// begin checks the kind, and allocates memory for all rows if their number is known.
func (r *receiver) begin(ctx context.Context, announced int64) error {
	k := &r.kind
	if k.rowBytes() > r.limit {
		return r.tooLarge(k.rowBytes())
	}
	if size, ok := k.bytes(k.rows); k.rows != unknown && (!ok || size > r.limit) {
		return r.tooLarge(size)
	}
	if r.accept != nil {
		if err := r.accept(k); err != nil {
			return err
		}
	}
	rows := k.rows
	if size, ok := k.bytes(announced); rows == unknown && ok && size <= r.limit {
		rows = announced
	}
	if rows == unknown {
		return nil
	}
	return r.resize(ctx, rows)
}

func (r *receiver) tooLarge(size int64) error {
	return fail(core.ErrOutOfMemory, r.call, "the tensor has %d bytes or more, the limit is %d: raise the limit, or send parts of the tensor", size, r.limit)
}

// resize moves the rows that have arrived to memory for rows rows. The budget has the old and the new memory until the
// old one is closed.
func (r *receiver) resize(ctx context.Context, rows int64) error {
	size, ok := r.kind.bytes(rows)
	if !ok || size > r.limit {
		return r.tooLarge(size)
	}
	if err := r.reserve(size); err != nil {
		return err
	}
	t, err := core.Empty(ctx, r.device, r.kind.dtype, append([]int64{rows}, r.kind.typ.Shape()...), core.AllocOptions{})
	if err != nil {
		r.unreserve(size)
		return err
	}
	if r.rows > 0 {
		if err := copyRows(ctx, t, r.stored, r.rows); err != nil {
			_ = t.Close()
			r.unreserve(size)
			return err
		}
	}
	r.drop()
	r.stored, r.capacity, r.reserved = t, rows, size
	return r.target.open(t)
}

func (r *receiver) unreserve(n int64) { _ = r.reserve(-n) }

// copyRows copies the first n rows of a tensor to the first of another one.
func copyRows(ctx context.Context, dst, src *core.Tensor, n int64) error {
	from, err := src.Slice(0, 0, n, 1)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := dst.Slice(0, 0, n, 1)
	if err != nil {
		return err
	}
	defer to.Close()
	return core.Convert(ctx, to, from)
}

// take copies the rows of a batch behind those before.
func (r *receiver) take(ctx context.Context, f *frame) error {
	k := &r.kind
	b, err := k.readBatch(r.call, f.header, int64(f.body.Len()))
	if err != nil {
		return err
	}
	total := r.rows + b.rows // cannot overflow: the rows before had bytes, and so have these
	switch {
	case k.rows != unknown && total > k.rows:
		return fail(core.ErrInvalid, r.call, "%d rows arrived, but the schema says that there are %d", total, k.rows)
	case total > r.limit/k.rowBytes():
		return r.tooLarge(total * k.rowBytes())
	case total > r.capacity:
		// Doubling copies each row once on average.
		if err := r.resize(ctx, min(max(total, 2*r.capacity), r.limit/k.rowBytes())); err != nil {
			return err
		}
	}
	if b.rows == 0 {
		return nil
	}
	c := &cursor{slices: f.body, left: f.body.Len()}
	c.skip(int(b.offset))
	if err := r.target.write(ctx, r.device, r.rows*k.rowBytes(), c, b.bytes); err != nil {
		return err
	}
	r.rows = total
	r.report.Batches++
	r.report.Bytes += b.bytes
	return nil
}

// finish returns the tensor when all frames have arrived. The budget still has its bytes.
func (r *receiver) finish(ctx context.Context) (*core.Tensor, error) {
	k := &r.kind
	if k.rows != unknown && r.rows != k.rows {
		return nil, fail(core.ErrInvalid, r.call, "the stream ended after %d rows, but the schema says that there are %d", r.rows, k.rows)
	}
	if r.stored == nil || r.rows != r.capacity {
		if err := r.resize(ctx, r.rows); err != nil {
			return nil, err
		}
	}
	shape := append([]int64{r.rows}, k.rowShape()...)
	if k.rows != unknown {
		shape = k.shape
	}
	axes := []int{0}
	for _, axis := range k.typ.Permutation() {
		axes = append(axes, axis+1)
	}
	if len(axes) == 1 {
		return r.stored.Reshape(shape...)
	}
	return r.stored.Permute(axes...)
}

// drop closes the memory, and gives its bytes back to the budget.
func (r *receiver) drop() {
	r.target.close()
	if r.stored != nil {
		_ = r.stored.Close()
		r.unreserve(r.reserved)
	}
	r.stored, r.reserved = nil, 0
}

// keep closes what the receiver has besides the tensor that receive returned. The caller owns the bytes of the budget.
func (r *receiver) keep() (reserved int64) {
	reserved = r.reserved
	r.reserved = 0
	r.drop()
	return reserved
}

// open makes t the target.
func (x *target) open(t *core.Tensor) (err error) {
	if x.whole, err = bytesOf(t); err != nil {
		return err
	}
	if t.DeviceID().Type.HostAccessible() {
		x.host, _, x.release, err = core.MutableSpan[uint8](x.whole)
	}
	return err
}

// close ends the use of the target, and keeps the staging memory.
func (x *target) close() {
	if x.release != nil {
		x.release()
	}
	if x.whole != nil {
		_ = x.whole.Close()
	}
	x.whole, x.host, x.release = nil, nil, nil
}

// write writes the next n bytes of c at a byte of the target.
func (x *target) write(ctx context.Context, d core.Device, at int64, c *cursor, n int64) error {
	if x.release != nil {
		c.copyTo(x.host[at : at+n])
		return nil
	}
	if int64(cap(x.staging)) < n {
		x.staging = make([]byte, n)
	}
	staging := x.staging[:n]
	c.copyTo(staging)
	src, err := core.FromSlice(staging)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := x.whole.Slice(0, at, at+n, 1)
	if err != nil {
		return err
	}
	defer dst.Close()
	return d.Copy(ctx, nil, dst, src)
}
