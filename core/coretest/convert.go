package coretest

import (
	"context"
	"runtime"
	"slices"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

var _ core.Converter = (*Device)(nil)

// CanConvert returns nil for all types, if Options.Converts is set: ConvertOn finds out.
func (d *Device) CanConvert(dst, src core.DType, scaling core.Scaling) error {
	p := d.Properties()
	return p.Require(core.CapConvert, "CanConvert")
}

// PrefersHost reports false.
func (d *Device) PrefersHost() bool { return false }

// ConvertOn enqueues a conversion between two tensors of this device.
func (d *Device) ConvertOn(ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error {
	const call = "ConvertOn"
	if err := d.call(call); err != nil {
		return err
	}
	if err := d.CanConvert(core.DType{}, core.DType{}, scaling); err != nil {
		return err
	}
	if err := core.CheckConversion(dst, src, scaling); err != nil {
		return err
	}
	if dst.DeviceID() != d.id || src.DeviceID() != d.id {
		return d.backend.errorf(core.ErrDevice, call, "%v cannot convert from %v to %v", d.id, src.DeviceID(), dst.DeviceID())
	}
	if dst.NumElements() == 0 {
		return nil
	}
	scaling.Scale, scaling.Offset = slices.Clone(scaling.Scale), slices.Clone(scaling.Offset) // the work runs later
	return d.onStream(ctx, call, s, func(s *Stream) error {
		return d.backend.options.Submit(ctx, s, []*core.Tensor{dst}, []*core.Tensor{src}, func() error {
			to, from, err := locateBoth(dst, src, d.backend.locate)
			if err != nil {
				return err
			}
			onHost := func(t *core.Tensor, at uintptr) (core.Memory, core.Spec) {
				l := t.Layout()
				return core.Memory{ID: core.CPU, Size: core.UnknownSize, Handle: at},
					core.Spec{DType: t.DType(), Shape: t.Shape(), Strides: l.AppendStrides(nil), Flags: t.Flags() & core.FlagSubBytePadded}
			}
			toMemory, toSpec := onHost(dst, uintptr(unsafe.Pointer(to)))
			fromMemory, fromSpec := onHost(src, uintptr(unsafe.Pointer(from)))
			return s.Enqueue(func() error {
				defer runtime.KeepAlive(to) // and not reused by the garbage collector
				defer runtime.KeepAlive(from)
				d, err := core.Wrap(toMemory, toSpec)
				if err != nil {
					return err
				}
				defer d.Close()
				x, err := core.Wrap(fromMemory, fromSpec)
				if err != nil {
					return err
				}
				defer x.Close()
				return core.ConvertScaled(context.Background(), d, x, scaling)
			})
		})
	})
}
