//go:build webgpu && linux && cgo

package webgpu

import (
	"cmp"
	"context"
	"slices"
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
	defer d.Drop()
	var pipeline wgpu.Handle
	err = d.held("ConvertOn", func() (err error) { // before the submission, for the same reason as in compile
		pipeline, err = d.pipeline(converter, gpuconvert.WGSL)
		return err
	})
	if err != nil {
		return err
	}
	to, from := p.Dst.buffer, p.Src.buffer
	dispatches, err := gpuconvert.Plan(dst, src, scaling, gpuconvert.Limits{Range: d.limits.StorageRange, Alignment: max(d.limits.OffsetAlignment, unit), Groups: d.limits.Groups[0]})
	if err != nil {
		return err
	}
	list := make([]launch, 0, len(dispatches))
	for _, x := range dispatches {
		list = append(list, launch{
			pipeline, wgpu.Range{Buffer: to.handle, Offset: x.Dst.Offset, Size: x.Dst.Size}, wgpu.Range{Buffer: from.handle, Offset: x.Src.Offset, Size: x.Src.Size},
			unsafe.Slice((*byte)(unsafe.Pointer(&x.Constants)), unsafe.Sizeof(x.Constants)), [3]uint32{x.Groups, 1, 1},
		})
		if list[len(list)-1].leaves(to, from) {
			return d.Errorf(core.ErrNotSupported, "ConvertOn", "a tensor ends within the last 4 bytes of its WGPUBuffer, whose size is not a multiple of 4: use a Clone")
		}
	}
	var copies []copied
	size := int64(0)
	if to.handle == from.handle {
		copies, size = apartFrom(list)
		if size > maxSparse && size/8 > src.NumBytes() {
			return d.convertPacked(ctx, s, dst, src, scaling)
		}
	}
	return d.enqueue(ctx, q, []*core.Tensor{dst}, []*core.Tensor{src}, onDevice(size, func() (*wgpu.Work, error) {
		r := recording{device: d}
		defer r.giveBack()
		var err error
		if size > 0 {
			err = r.readCopies(list, copies, size)
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

// maxSparse is how many bytes of a buffer are copied aside whatever few of them are the elements: that is one step.
const maxSparse = 1 << 20

// convertPacked converts a packed copy of src, whose elements lie far apart in the buffer of dst.
func (d *device) convertPacked(ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error {
	packed, err := core.Empty(ctx, d, src.DType(), src.Shape(), core.AllocOptions{})
	if err != nil {
		return err
	}
	defer packed.Close() // its memory stays until it is converted
	if err := d.Copy(ctx, s, packed, src); err != nil {
		return err
	}
	return d.ConvertOn(ctx, s, dst, packed, scaling)
}

// copied is a range of a buffer, and where its copy lies in another one.
type copied struct {
	from wgpu.Range
	at   int64
}

// apartFrom returns what is copied to a buffer of size bytes, so that the launches can read there: their windows lie in one
// buffer, which a shader cannot both read and write. It moves the windows. Those that overlap, as the windows for some channels
// each do, are copied once.
func apartFrom(list []launch) (copies []copied, size int64) {
	order := make([]*launch, len(list))
	for i := range list {
		order[i] = &list[i]
	}
	slices.SortFunc(order, func(a, b *launch) int { return cmp.Compare(a.src.Offset, b.src.Offset) })
	for _, l := range order {
		if n := len(copies) - 1; n < 0 || copies[n].from.Offset+copies[n].from.Size < l.src.Offset {
			copies = append(copies, copied{l.src, size})
		}
		c := &copies[len(copies)-1]
		into := l.src.Offset - c.from.Offset
		c.from.Size = max(c.from.Size, into+l.src.Size)
		size = c.at + (c.from.Size+constantsRoom-1)&^(constantsRoom-1)
		l.src.Offset = c.at + into
	}
	return copies, size
}

// readCopies adds the copies of apartFrom to a buffer of size bytes, and lets the launches read that.
func (r *recording) readCopies(list []launch, copies []copied, size int64) error {
	temporary, err := r.take(wgpu.Memory, size)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].src.Buffer = temporary.handle
	}
	r.add("wgpuCommandEncoderCopyBufferToBuffer", func(e *wgpu.Encoder) {
		for _, c := range copies {
			e.Copy(temporary.handle, c.at, c.from.Buffer, c.from.Offset, c.from.Size)
		}
	})
	return nil
}
