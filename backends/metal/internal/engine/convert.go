package engine

import (
	"context"
	"math"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/core"
)

var _ core.Converter = (*device)(nil)

// CanConvert says what the device converts: see [gpuconvert.Supports].
func (d *device) CanConvert(dst, src core.DType, s core.Scaling) error {
	return gpuconvert.CanConvert(&d.Info, dst, src, s)
}

// PrefersHost reports false: Metal's devices are GPUs.
func (d *device) PrefersHost() bool { return false }

// ConvertOn converts by a kernel, in one command buffer with as many dispatches as needed.
func (d *device) ConvertOn(ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error {
	return d.Convert(ctx, s, dst, src, scaling, func(q *queue, to, from *object) error {
		every := gpucopy.MetalLimits()
		limits := gpuconvert.Limits{Range: math.MaxInt32, Alignment: every.OffsetAlignment, Groups: every.Groups[0]}
		dispatches, err := gpuconvert.Plan(dst, src, scaling, limits)
		if err != nil {
			return err
		}
		return q.Add(item{Commands: &conversion{to, from, dispatches}})
	})
}

// conversion is commands that convert.
type conversion struct {
	dst, src   *object
	dispatches []gpuconvert.Dispatch
}

func (x *conversion) Submit(q *queue, i item) error { return q.submit(i, x) }

func (x *conversion) encode(e *encoding) error {
	for _, part := range x.dispatches {
		constants := unsafe.Slice((*byte)(unsafe.Pointer(&part.Constants)), unsafe.Sizeof(part.Constants))
		err := e.dispatch(kernel{gpuconvert.Kernel, gpuconvert.MSL, gpuconvert.GroupSize}, place{x.dst, part.Dst.Offset}, place{x.src, part.Src.Offset},
			constants, [3]uint32{part.Groups, 1, 1})
		if err != nil {
			return err
		}
	}
	return nil
}
