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
	var pipeline wgpu.Handle
	err = d.held("ConvertOn", func() (err error) { // before the submission, for the same reason as in compile
		pipeline, err = d.pipeline(converter, gpuconvert.WGSL)
		return err
	})
	if err != nil {
		return err
	}
	to, from := p.Dst.buffer, p.Src.buffer
	var list []launch
	for x := range gpuconvert.Plan(dst, src, scaling, gpuconvert.Limits{Range: d.limits.StorageRange, Alignment: max(d.limits.OffsetAlignment, unit), Groups: d.limits.Groups[0]}) {
		list = append(list, launch{
			pipeline, wgpu.Range{Buffer: to.handle, Offset: x.Dst.Offset, Size: x.Dst.Size}, wgpu.Range{Buffer: from.handle, Offset: x.Src.Offset, Size: x.Src.Size},
			unsafe.Slice((*byte)(unsafe.Pointer(&x.Constants)), unsafe.Sizeof(x.Constants)), [3]uint32{x.Groups, 1, 1},
		})
		if list[len(list)-1].leaves(to, from) {
			return d.Errorf(core.ErrNotSupported, "ConvertOn", "a tensor ends within the last 4 bytes of its WGPUBuffer, whose size is not a multiple of 4: use a Clone")
		}
	}
	apart := int64(0)
	if to.handle == from.handle {
		for i := range list {
			apart += list[i].apart()
		}
	}
	return d.enqueue(ctx, q, []*core.Tensor{dst}, []*core.Tensor{src}, onDevice(apart, func() (*wgpu.Work, error) {
		r := recording{device: d}
		defer r.giveBack()
		var err error
		if apart > 0 {
			err = r.readCopies(list, apart)
		}
		if err == nil {
			err = r.launch(list)
		}
		if err != nil {
			return nil, err
		}
		return r.submit()
	}))
}

// apart is the room for a copy of what a dispatch reads.
func (l *launch) apart() int64 { return (l.src.Size + constantsRoom - 1) &^ (constantsRoom - 1) }

// readCopies adds copies of what dispatches read to a buffer of size bytes, and lets them read that: their windows lie in one
// buffer, which a shader cannot both read and write.
func (r *recording) readCopies(list []launch, size int64) error {
	temporary, err := r.take(size)
	if err != nil {
		return err
	}
	from, at := make([]wgpu.Range, len(list)), int64(0)
	for i := range list {
		l := &list[i]
		from[i] = l.src
		l.src.Buffer, l.src.Offset = temporary.handle, at
		at += l.apart()
	}
	r.add("wgpuCommandEncoderCopyBufferToBuffer", func(e *wgpu.Encoder) {
		for i, f := range from {
			e.Copy(temporary.handle, list[i].src.Offset, f.Buffer, f.Offset, f.Size)
		}
	})
	return nil
}
