package backendtest

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// converting makes a mutant of a device that converts.
func converting(convert func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error) hooks {
	return hooks{options: coretest.Options{Converts: true}, convert: convert}
}

var convertMutants = []mutant[hooks]{
	{"forgets the offset where the factors differ", "convert/layouts", "the host's is",
		converting(func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error {
			if len(scaling.Scale) > 1 && core.CheckConversion(dst, src, scaling) == nil {
				scaling.Offset = nil
			}
			return d.ConvertOn(ctx, s, dst, src, scaling)
		})},
	{"rounds the product and the sum at once", "convert/bits", "the host's is",
		converting(func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error {
			if len(scaling.Scale) == 1 && len(scaling.Offset) == 1 && dst.DType() == core.TypeFloat32 && src.DType() == core.TypeUint8 {
				scaling.Scale = []float32{scaling.Scale[0] * (1 + 1e-7)}
			}
			return d.ConvertOn(ctx, s, dst, src, scaling)
		})},
	{"does not wait for what writes the source", "convert/order", "what was converted",
		converting(func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error {
			if s == nil {
				return d.ConvertOn(ctx, s, dst, src, scaling)
			}
			b, err := src.Buffer()
			if err != nil {
				return err
			}
			m := b.Memory()
			other, err := core.Wrap(core.Memory{ID: m.ID, Handle: m.Handle, Offset: m.Offset, Size: m.Size, Device: m.Device}, core.Spec{DType: src.DType(), Shape: src.Shape()})
			if err != nil {
				return err
			}
			defer other.Close()
			return d.ConvertOn(ctx, s, dst, other, scaling)
		})},
	{"takes any factor", "convert/errors", "too few factors",
		converting(func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error {
			if len(scaling.Scale) == 2 {
				scaling.Scale = scaling.Scale[:1]
			}
			return d.ConvertOn(ctx, s, dst, src, scaling)
		})},
}
