//go:build gl && linux && cgo

package gl

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/core"
)

var _ core.Converter = (*device)(nil)

// CanConvert says what the device converts: see [gpuconvert.Supports].
func (d *device) CanConvert(dst, src core.DType, s core.Scaling) error {
	return gpuconvert.CanConvert(&d.Info, dst, src, s)
}

// PrefersHost reports whether the renderer is the processor.
func (d *device) PrefersHost() bool { return d.info.software }

// ConvertOn converts by a shader, in as many dispatches as the context's limits require.
func (d *device) ConvertOn(ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error {
	q, p, todo, err := devicebase.BeginConversion[*queue](ctx, &d.Device, s, dst, src, scaling, d.operandOf)
	if err != nil || !todo {
		return err
	}
	defer d.Drop()
	limits := gpuconvert.Limits{Range: d.info.blockSize, Alignment: d.info.blockAlign, Groups: d.info.groups[0]}
	dispatches, err := gpuconvert.Plan(dst, src, scaling, limits)
	if err != nil {
		return err
	}
	list := make([]dispatch, 0, len(dispatches))
	for _, x := range dispatches {
		for _, side := range []struct {
			w gpuconvert.Window
			o operand
		}{{x.Dst, p.Dst}, {x.Src, p.Src}} {
			if side.w.Offset+side.w.Size > side.o.buffer.size {
				return core.Errorf(core.ErrNotSupported, "gl", "ConvertOn", "%v ends within the last 4 bytes of its buffer, whose size is not a multiple of 4: use a Clone", side.o)
			}
		}
		list = append(list, conversion(x))
	}
	return d.submit(ctx, q, []*core.Tensor{dst}, []*core.Tensor{src}, func(j *job) error { return j.dispatches(p.Dst.buffer, p.Src.buffer, list) })
}

var conversionUniforms = []string{
	"dstFirst", "srcFirst", "count", "kinds", "channels", "channelDst", "channelSrc", "n", "dstStep", "srcStep", "scale", "offset",
}

// conversion returns the launch of a dispatch.
func conversion(x gpuconvert.Dispatch) dispatch {
	return dispatch{
		shader: shader{gpuconvert.Kernel, gpuconvert.OpenGL, conversionUniforms},
		set: func(p *program) {
			k := &x.Constants
			p.setInt("dstFirst", k.DstFirst)
			p.setInt("srcFirst", k.SrcFirst)
			p.setUint("count", k.Count)
			p.setUint("kinds", k.Kinds)
			p.setUint("channels", k.Channels)
			p.setInt("channelDst", k.ChannelDst)
			p.setInt("channelSrc", k.ChannelSrc)
			p.setUints("n", k.N[:])
			p.setInts("dstStep", k.DstStep[:])
			p.setInts("srcStep", k.SrcStep[:])
			p.setFloats("scale", k.Scale[:])
			p.setFloats("offset", k.Offset[:])
		},
		dst: window(x.Dst), src: window(x.Src), groups: [3]uint32{x.Groups, 1, 1},
	}
}
