//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

var _ core.Converter = (*device)(nil)

// CanConvert says what the device converts: see [gpuconvert.Supports].
func (d *device) CanConvert(dst, src core.DType, s core.Scaling) error {
	return gpuconvert.CanConvert(&d.Info, dst, src, s)
}

// PrefersHost reports whether the device is the processor.
func (d *device) PrefersHost() bool { return d.physical.Kind == driver.CPU }

// ConvertOn converts by a shader, in as many dispatches as the device's limits require.
func (d *device) ConvertOn(ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error {
	return d.Convert(ctx, s, dst, src, scaling, func(q *queue, to, from *object) error {
		p, err := d.conversionPipeline()
		if err != nil {
			return err
		}
		limits := gpuconvert.Limits{
			Range:     d.physical.MaxStorageRange,
			Alignment: max(d.physical.StorageAlignment, 4),
			Groups:    d.physical.MaxGroups[0],
		}
		dispatches, err := gpuconvert.Plan(dst, src, scaling, limits)
		if err != nil {
			return err
		}
		list := make([]*conversion, len(dispatches))
		for i, part := range dispatches {
			x := &conversion{to.operand(), from.operand(), p, part.Constants, part.Groups}
			for _, side := range []struct {
				o *driver.Operand
				w gpuconvert.Window
				t *core.Tensor
			}{{&x.dst, part.Dst, dst}, {&x.src, part.Src, src}} {
				if side.w.Offset+side.w.Size > side.o.Range {
					return errorf(core.ErrNotSupported, "ConvertOn", "%v ends within the last 4 bytes of its VkBuffer, whose size is not a multiple of 4: use a Clone", side.t)
				}
				side.o.Offset, side.o.Range = side.w.Offset, side.w.Size
			}
			list[i] = x
		}
		for _, x := range list { // nothing is refused from here on
			if err := q.Add(item{Commands: x}); err != nil {
				return err
			}
		}
		return nil
	})
}

// conversion is a dispatch of the shader for conversions.
type conversion struct {
	dst, src  driver.Operand
	pipeline  *driver.Pipeline
	constants gpuconvert.Constants
	groups    uint32
}

func (x *conversion) Submit(q *queue, i item) error { return q.submit(i, x) }

func (x *conversion) record(q *queue, _ item, c *command) error {
	set, err := c.setFor(q.device, x.pipeline)
	if err != nil {
		return err
	}
	constants := x.constants // apart from Go pointers, which C must not see
	push := unsafe.Slice((*byte)(unsafe.Pointer(&constants)), unsafe.Sizeof(constants))
	return q.device.driver.Record(c.handle, x.dst, x.src, nil,
		&driver.Dispatch{Pipeline: x.pipeline, Set: set, Groups: [3]uint32{x.groups, 1, 1}, Push: push})
}

// conversionPipeline returns the pipeline of the shader for conversions, and makes it on first use.
func (d *device) conversionPipeline() (*driver.Pipeline, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if d.converter == nil {
		p, err := d.driver.NewPipeline(gpuconvert.SPIRV(), int(unsafe.Sizeof(gpuconvert.Constants{})))
		if err != nil {
			return nil, d.NoteLoss(err)
		}
		d.converter = p
	}
	return d.converter, nil
}
