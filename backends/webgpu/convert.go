//go:build webgpu && linux && cgo

package webgpu

import (
	"context"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
)

var _ core.Converter = (*device)(nil)

// CanConvert says what the device converts: see [gpuconvert.Supports].
func (d *device) CanConvert(dst, src core.DType, s core.Scaling) error {
	return gpuconvert.CanConvert(&d.Info, dst, src, s)
}

// PrefersHost reports whether the adapter is the processor.
func (d *device) PrefersHost() bool { return d.cpu }

// converter is the key of the pipeline that converts: no shader for copies has words of 0 bytes.
var converter = gpucopy.Shader{}

// ConvertOn converts by a shader, in as many dispatches as the device's limits require.
func (d *device) ConvertOn(ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error {
	q, p, todo, err := devicebase.BeginConversion[*devicebase.Queue](ctx, &d.Device, s, dst, src, scaling, d.operandOf)
	if err != nil || !todo {
		return err
	}
	to, from := p.Dst.buffer, p.Src.buffer
	var list []launch
	for x := range gpuconvert.Plan(dst, src, scaling, gpuconvert.Limits{Range: d.limits.StorageRange, Alignment: max(d.limits.OffsetAlignment, unit), Groups: d.limits.Groups[0]}) {
		list = append(list, launch{
			0, wgpu.Range{Buffer: to.handle, Offset: x.Dst.Offset, Size: x.Dst.Size}, wgpu.Range{Buffer: from.handle, Offset: x.Src.Offset, Size: x.Src.Size},
			unsafe.Slice((*byte)(unsafe.Pointer(&x.Constants)), unsafe.Sizeof(x.Constants)), [3]uint32{x.Groups, 1, 1},
		})
		if list[len(list)-1].leaves(to, from) {
			return d.Errorf(core.ErrNotSupported, "ConvertOn", "a tensor ends within the last 4 bytes of its WGPUBuffer, whose size is not a multiple of 4: use a Clone")
		}
	}
	return d.enqueue(ctx, q, dst, src, func() error {
		pipeline, err := d.pipeline(converter, gpuconvert.WGSL)
		if err != nil {
			return err
		}
		for i := range list {
			list[i].pipeline = pipeline
		}
		if to.handle == from.handle {
			return d.launchApart(list)
		}
		return d.launch(list)
	})
}

// launchApart runs dispatches whose windows lie in one buffer, which a shader cannot both read and write: it copies what they read.
func (d *device) launchApart(list []launch) error {
	size := int64(0)
	at := make([]int64, len(list))
	for i, l := range list {
		at[i] = size
		size += (l.src.Size + constantsRoom - 1) &^ (constantsRoom - 1)
	}
	temporary, err := d.spares.take(d, wgpu.Memory, size)
	if err != nil {
		return err
	}
	defer d.spares.giveBack(temporary, wgpu.Memory)
	err = wait(d.native.Submit("wgpuCommandEncoderCopyBufferToBuffer", func(e *wgpu.Encoder) {
		for i, l := range list {
			e.Copy(temporary.handle, at[i], l.src.Buffer, l.src.Offset, l.src.Size)
		}
	}))
	if err != nil {
		return err
	}
	for i := range list {
		list[i].src.Buffer, list[i].src.Offset = temporary.handle, at[i]
	}
	return d.launch(list)
}
