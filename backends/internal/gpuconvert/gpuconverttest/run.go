// Package gpuconverttest does on the host what the kernel of package gpuconvert does, for simulated drivers.
package gpuconverttest

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/core"
)

// Run converts what a launch of the kernel converts. The windows begin at the addresses dst and src in memory of the host.
func Run(k gpuconvert.Constants, dst, src uintptr) (err error) {
	to, from, ok := k.Types()
	if !ok || k.Channels == 0 || k.Channels > gpuconvert.MaxChannels {
		return fmt.Errorf("no kernel takes the constants %+v", k)
	}
	shape := []int64{int64(k.Channels)}
	for _, n := range k.N {
		shape = append(shape, int64(n))
	}
	tensor := func(at uintptr, first int32, channel int32, steps [gpuconvert.MaxAxes]int32, d core.DType) (*core.Tensor, error) {
		strides := []int64{int64(channel)}
		for _, s := range steps {
			strides = append(strides, int64(s))
		}
		return core.Wrap(core.Memory{ID: core.CPU, Size: core.UnknownSize, Handle: at},
			core.Spec{DType: d, Shape: shape, Strides: strides, Offset: int64(first) * int64(d.Bits) / 8})
	}
	out, err := tensor(dst, k.DstFirst, k.ChannelDst, k.DstStep, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	in, err := tensor(src, k.SrcFirst, k.ChannelSrc, k.SrcStep, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	return core.ConvertScaled(context.Background(), out, in, core.Scaling{Scale: k.Scale[:k.Channels], Offset: k.Offset[:k.Channels]})
}
