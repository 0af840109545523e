package backendtest

import (
	"context"
	"math"
	"testing"

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
			if len(scaling.Scale) == 1 && len(scaling.Offset) == 1 && dst.DType() == core.TypeFloat32 && src.DType() == core.TypeUint8 && src.Rank() == 1 {
				return convertFused(ctx, d, s, dst, src, scaling)
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

// fused is x*scale + offset, rounded once.
func fused(x byte, scale, offset float32) float32 {
	return float32(math.FMA(float64(x), float64(scale), float64(offset)))
}

// convertFused converts bytes with one factor and one offset as a device with a fused multiplication does.
func convertFused(ctx context.Context, d *device, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error {
	bytes := make([]byte, src.NumElements())
	from, err := core.FromSlice(bytes)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := d.Copy(ctx, nil, from, src); err != nil {
		return err
	}
	numbers := make([]float32, len(bytes))
	for i, x := range bytes {
		numbers[i] = fused(x, scaling.Scale[0], scaling.Offset[0])
	}
	to, err := core.FromSlice(numbers)
	if err != nil {
		return err
	}
	defer to.Close()
	return d.Copy(ctx, s, dst, to)
}

// For each scaling of convert/bits with a factor and an offset, some bytes tell one rounding from two.
func TestScalingsTellFusedFromSeparate(t *testing.T) {
	found := 0
	for _, s := range someScalings() {
		if len(s.Scale) == 0 || len(s.Offset) == 0 {
			continue
		}
		differ := 0
		for x := range 256 {
			product := float32(float32(x) * s.Scale[0]) // the conversion keeps the compiler from fusing
			if fused(byte(x), s.Scale[0], s.Offset[0]) != product+s.Offset[0] {
				differ++
			}
		}
		if differ == 0 {
			t.Errorf("%+v: each byte has the same number with one rounding and with two", s)
		}
		t.Logf("%+v: %d of 256 bytes differ", s, differ)
		found++
	}
	if found == 0 {
		t.Error("no scaling has a factor and an offset")
	}
}
