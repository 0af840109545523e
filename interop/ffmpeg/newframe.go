//go:build cgo

package ffmpeg

// #include "frame.h"
import "C"

import (
	"context"
	"math"
	"unsafe"

	"github.com/asticode/go-astiav"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
)

// NewVideoFrame returns a frame whose planes are tensors in host memory, without a copy. The planes must have the
// types and the shapes that Planes returns for the format. The elements of a row must be adjacent; rows may have any
// distance of less than 2 GiB, also a negative one. NewVideoFrame blocks until all work on the planes is done, or for
// read-only ones the last write, since FFmpeg may write to the others.
//
// The caller frees the frame, and still owns the tensors, which it may close at once: the frame's buffers hold
// references to their memory, which FFmpeg releases with the last reference to the buffers, on any thread. The
// buffers of read-only tensors are read-only for FFmpeg.
//
// Some filters of FFmpeg and swscale read up to 16 bytes after the end of a plane, and are fast only if planes and
// rows begin at multiples of 64 bytes. The memory of the tensors must allow the former; see AVFrame.data.
//
// NewVideoFrame returns core.ErrInvalid for a size that is not positive or another number of planes, core.ErrDType
// and core.ErrLayout if a plane does not fit, core.ErrDevice if one is not in host memory, core.ErrClosed if one is
// closed, core.ErrOutOfMemory, the error of the last write, and ctx's error. On failure the frame does not exist.
func NewVideoFrame(ctx context.Context, format astiav.PixelFormat, width, height int, planes ...*core.Tensor) (*astiav.Frame, error) {
	const call = "NewVideoFrame"
	if width > math.MaxInt32 || height > math.MaxInt32 {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "a picture of %d x %d pixels is too large", width, height)
	}
	layouts, err := formatOf(C.int(format)).layouts(call, width, height)
	if err != nil {
		return nil, err
	}
	if err := check(ctx, call, len(layouts), planes); err != nil {
		return nil, err
	}
	return build(func(p unsafe.Pointer) error {
		C.dlxav_set_video(p, C.int(format), C.int(width), C.int(height))
		for i, l := range layouts {
			stride, err := l.rowStride(call, i, planes[i])
			if err != nil {
				return err
			}
			low, size, _ := l.span(call, i, stride)
			if err := lend(call, p, i, planes[i], stride, low, size); err != nil {
				return err
			}
		}
		return nil
	})
}

// NewAudioFrame returns a frame whose samples are tensors in host memory, without a copy: one of shape (channels,
// samples) and strides (1, channels) for packed formats, or up to 8 of shape (1, samples), one for each channel.
// The frame has FFmpeg's default layout for the number of channels; the program sets the sample rate. Everything
// else is as for NewVideoFrame.
func NewAudioFrame(ctx context.Context, format astiav.SampleFormat, planes ...*core.Tensor) (*astiav.Frame, error) {
	const call = "NewAudioFrame"
	dtype, planar, err := samplesOf(call, C.int(format))
	if err != nil {
		return nil, err
	}
	count := 1
	if planar {
		count = min(max(len(planes), 1), 8)
	}
	if err := check(ctx, call, count, planes); err != nil {
		return nil, err
	}
	first := planes[0].Shape()
	if len(first) != 2 || first[0] < 1 || first[1] < 1 || planar && first[0] != 1 || first[0] > math.MaxInt32 || first[1] > math.MaxInt32 {
		return nil, core.Errorf(core.ErrLayout, backend, call, "samples of shape %v instead of (channels, samples)", first)
	}
	channels, samples := first[0], first[1]
	// Seen as a picture with one row, whose columns are the samples of all channels at a time.
	l := layout{dtype: dtype, size: int64(dtype.Bits / 8), rows: 1, columns: samples, elements: channels}
	if l.rowBytes() > math.MaxInt32 {
		return nil, core.Errorf(core.ErrLayout, backend, call, "the samples have more than 2 GiB")
	}
	return build(func(p unsafe.Pointer) error {
		total := channels
		if planar {
			total = int64(count)
		}
		if code := C.dlxav_set_audio(p, C.int(format), C.int(total), C.int(samples)); code != 0 {
			return failed(core.ErrInvalid, call, code)
		}
		for i, t := range planes {
			given := t.Layout()
			adjacent := (samples == 1 || given.Rank() == 2 && given.Stride(1) == channels) && (channels == 1 || given.Stride(0) == 1)
			switch {
			case t.DType() != dtype:
				return core.Errorf(core.ErrDType, backend, call, "plane %d: the tensor has the type %v, and the format %v", i, t.DType(), dtype)
			case given.Rank() != 2 || given.Dim(0) != channels || given.Dim(1) != samples || !adjacent:
				return core.Errorf(core.ErrLayout, backend, call, "plane %d: %v instead of the shape (%d, %d) with the strides (1, %d)", i, given, channels, samples, channels)
			}
			if err := lend(call, p, i, t, l.rowBytes(), 0, l.rowBytes()); err != nil {
				return err
			}
		}
		return nil
	})
}

func check(ctx context.Context, call string, want int, planes []*core.Tensor) error {
	if len(planes) != want {
		return core.Errorf(core.ErrInvalid, backend, call, "%d planes instead of %d", len(planes), want)
	}
	for i, t := range planes {
		switch {
		case t == nil:
			return core.Errorf(core.ErrInvalid, backend, call, "plane %d is nil", i)
		case !t.DeviceID().Type.HostAccessible():
			return core.Errorf(core.ErrDevice, backend, call, "plane %d is on %v: move it to the host by exchange.To", i, t.DeviceID())
		}
		wait := t.WaitReady
		if !t.ReadOnly() { // FFmpeg may write to it
			wait = t.WaitIdle
		}
		if err := wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func build(fill func(p unsafe.Pointer) error) (*astiav.Frame, error) {
	f := astiav.AllocFrame()
	if err := fill(f.UnsafePointer()); err != nil {
		f.Free()
		return nil, err
	}
	return f, nil
}

// lend makes a tensor's memory a buffer of a frame. The buffer owns a managed tensor of DLPack, whose deleter FFmpeg
// can call on any thread and under its locks, because it does not enter Go.
func lend(call string, p unsafe.Pointer, plane int, t *core.Tensor, stride, low, size int64) error {
	managed, err := dlpack.Export(t)
	if err != nil {
		return err
	}
	address, err := t.Address()
	if err != nil {
		dlpack.Delete(managed)
		return err
	}
	readOnly := C.int(0)
	if t.ReadOnly() {
		readOnly = 1
	}
	code := C.dlxav_set_plane(p, C.int(plane), C.uintptr_t(address), C.int(stride), C.uintptr_t(address+uintptr(low)), C.size_t(size), readOnly, unsafe.Pointer(managed))
	if code != 0 {
		dlpack.Delete(managed)
		return failed(core.ErrOutOfMemory, call, code)
	}
	return nil
}
