package devicebase

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// BeginConversion does what ConvertOn does on every device, whose streams have the type Q: it checks the arguments and
// that the device converts, and finds both operands, which are the device's. For a conversion of elements it returns
// todo, with the operands, and the zero value of Q for a nil stream; the device is held then, and the caller calls Drop.
func BeginConversion[Q core.Stream, S Operand](ctx context.Context, d *Device, s core.Stream, dst, src *core.Tensor, scaling core.Scaling, operand func(*core.Tensor) (S, error)) (q Q, p Pair[S], todo bool, err error) {
	const call = "ConvertOn"
	if q, err = begin[Q](ctx, d, call, s); err != nil {
		return q, p, false, err
	}
	defer func() { d.dropUnless(todo) }()
	if err := core.CheckConversion(dst, src, scaling); err != nil {
		return q, p, false, err
	}
	c, ok := d.self.(core.Converter)
	if !ok {
		return q, p, false, d.Info.Require(core.CapConvert, call)
	}
	if err := c.CanConvert(dst.DType(), src.DType(), scaling); err != nil {
		return q, p, false, err
	}
	for _, side := range []struct {
		t *core.Tensor
		o *S
	}{{dst, &p.Dst}, {src, &p.Src}} {
		if *side.o, err = operand(side.t); err != nil {
			return q, p, false, err
		}
		if side.t.NumElements() == 0 {
			continue
		}
		if !(*side.o).Ours() {
			return q, p, false, d.Errorf(core.ErrDevice, call, "%v is memory of the host, and the device converts its own: move it there first", side.t)
		}
		if size := max(1, int64(side.t.DType().Bits)/8); side.t.Offset()%size != 0 {
			return q, p, false, d.Errorf(core.ErrLayout, call, "the memory of %v is not aligned for its type: use a Clone", side.t)
		}
	}
	return q, p, dst.NumElements() > 0, nil
}
