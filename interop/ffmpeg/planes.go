//go:build cgo

package ffmpeg

// #cgo pkg-config: libavutil
// #cgo CFLAGS: -I${SRCDIR}/include
// #include "frame.h"
import "C"

import (
	"context"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/asticode/go-astiav"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

const backend = "ffmpeg"

// liveFrames counts the references to frames that tensors hold.
var liveFrames = live.NewCounter("ffmpeg.frame")

// Planes returns the planes of a frame as tensors in host memory, without a copy; see the package for their shapes.
// The tensors hold a reference to the frame's memory of their own: the program may unref the frame at once, and the
// memory returns to FFmpeg when the last view of the last plane is closed. The caller closes the tensors.
//
// The tensors can be written if nothing else had a reference to the memory (av_frame_is_writable) when Planes was
// called. They then share what they write with the frame. Otherwise they are read-only: a decoder keeps references
// to the frames that later ones refer to, and the tensors of an earlier Planes are references, too. As long as the
// tensors are open, FFmpeg takes the frame for shared, and does not write it in place.
//
// If the frame is in a hardware frames context, FFmpeg maps it into host memory, and the tensors are read-only. For
// frames of Vulkan, Planes waits for the work on them; that needs Vulkan's headers in the build.
//
// Planes returns
//
//   - core.ErrInvalid if the frame is nil, freed or empty, or its memory has no references, so that it cannot be
//     kept: Frame.Clone makes a frame that can;
//   - core.ErrDType if the elements of the format are no elements of a tensor;
//   - core.ErrLayout if a plane does not lie in one of the frame's buffers;
//   - core.ErrDevice if the frame is in memory of CUDA: see PlanesOn;
//   - core.ErrNotSupported if FFmpeg cannot map the frame into host memory without a copy;
//   - core.ErrOutOfMemory.
func Planes(f *astiav.Frame) ([]*core.Tensor, error) {
	const call = "Planes"
	p, d, err := describe(call, f)
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(f)
	if d.hardware == 0 {
		return planes(call, p, d)
	}
	if d.cuda != 0 {
		return nil, core.Errorf(core.ErrDevice, backend, call, "the frame is in memory of CUDA: use PlanesOn, or copy it to the host with TransferHardwareData")
	}
	var mapped unsafe.Pointer
	if code := C.dlxav_map(p, &mapped); code != 0 {
		err := failed(core.ErrNotSupported, call, code)
		err.Detail = "FFmpeg cannot map a frame of the format " + formatOf(d.format).name + " into host memory (" + err.Detail + "): copy it with TransferHardwareData"
		return nil, err
	}
	C.dlxav_describe(mapped, &d)
	d.writable = 0
	k := keep(mapped)
	defer k.Free()
	return k.picture(call, &d, nil)
}

func planes(call string, p unsafe.Pointer, d C.struct_dlxav_frame) ([]*core.Tensor, error) {
	if d.counted == 0 {
		return nil, notCounted(call)
	}
	clone := C.dlxav_clone(p)
	if clone == nil {
		return nil, core.Errorf(core.ErrOutOfMemory, backend, call, "no memory for a reference to the frame")
	}
	k := keep(clone)
	defer k.Free()
	if d.samples > 0 && d.width == 0 && d.height == 0 {
		return k.sound(call, &d)
	}
	return k.picture(call, &d, func(plane int, low uintptr, size int64) (core.Memory, error) {
		return k.memory(call, plane, low, size)
	})
}

func notCounted(call string) error {
	return core.Errorf(core.ErrInvalid, backend, call, "the memory of the frame has no references, so that it cannot be kept: use Frame.Clone")
}

// legacyStream is CUDA's number of the default stream.
const legacyStream = 1

// PlanesOn returns the planes of a frame of CUDA (AV_PIX_FMT_CUDA) as tensors on the CUDA device d, without a copy.
// The shapes, the lifetime and the errors are those of Planes. The frame's device must have been made with the
// option primary_ctx=1 (AV_CUDA_USE_PRIMARY_CONTEXT), so that FFmpeg and dlx use one context.
//
// s is FFmpeg's stream, which the program has imported with [core.StreamImporter]: the tensors are ready when the
// work on it is done that was enqueued before. If FFmpeg uses the default stream, that is stream 1, the legacy one.
// If s is nil, PlanesOn waits for FFmpeg's work. Later work of FFmpeg on the frame is not known to dlx, and FFmpeg
// does not know of work on the tensors.
//
// PlanesOn returns core.ErrDevice if the frame is not in memory of CUDA or not in that of d, and core.ErrInvalid if
// s is not FFmpeg's stream, or FFmpeg's stream is of another context.
func PlanesOn(ctx context.Context, d core.Device, s core.Stream, f *astiav.Frame) ([]*core.Tensor, error) {
	const call = "PlanesOn"
	p, info, err := describe(call, f)
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(f)
	if d == nil || d.ID().Type != core.DeviceCUDA || info.cuda == 0 {
		return nil, core.Errorf(core.ErrDevice, backend, call, "needs a device of CUDA, and a frame in the frames context of one")
	}
	if info.counted == 0 {
		return nil, notCounted(call)
	}
	importer, ok := core.As[core.PointerImporter](d)
	if !ok {
		return nil, core.Errorf(core.ErrNotSupported, backend, call, "%v imports no addresses", d.ID())
	}
	ready, err := written(ctx, d, s, uintptr(info.stream))
	if err != nil {
		return nil, err
	}
	clone := C.dlxav_clone(p)
	if clone == nil {
		return nil, core.Errorf(core.ErrOutOfMemory, backend, call, "no memory for a reference to the frame")
	}
	k := keep(clone)
	defer k.Free()
	info.format = info.hardware_format
	all, err := k.picture(call, &info, func(_ int, low uintptr, size int64) (core.Memory, error) {
		k.used.Add(1)
		m, err := importer.ImportPointer(low, size, k)
		if err != nil {
			k.used.Add(-1) // never the last one, which is the caller's
		}
		return m, err
	})
	for _, t := range all {
		if b, err := t.Buffer(); err == nil && ready != nil {
			b.Wrote(ready)
		}
	}
	return all, err
}

// written returns the event of the work on FFmpeg's stream, or waits for it if s is nil.
func written(ctx context.Context, d core.Device, s core.Stream, native uintptr) (core.Event, error) {
	const call = "PlanesOn"
	if native == 0 {
		native = legacyStream
	}
	if s != nil {
		if s.Native() != native || s.Device() == nil || s.Device().ID() != d.ID() {
			return nil, core.Errorf(core.ErrInvalid, backend, call, "the stream is not %#x of %v, on which FFmpeg works", native, d.ID())
		}
		return s.Record()
	}
	importer, ok := core.As[core.StreamImporter](d)
	if !ok {
		return nil, core.Errorf(core.ErrNotSupported, backend, call, "%v imports no streams", d.ID())
	}
	imported, err := importer.ImportStream(ctx, native)
	if err != nil {
		return nil, err
	}
	err = imported.Synchronize(ctx)
	if closing := imported.Close(); err == nil {
		err = closing
	}
	return nil, err
}

func describe(call string, f *astiav.Frame) (p unsafe.Pointer, d C.struct_dlxav_frame, err error) {
	if f == nil || f.UnsafePointer() == nil {
		return nil, d, core.Errorf(core.ErrInvalid, backend, call, "the frame is nil or freed")
	}
	p = f.UnsafePointer()
	C.dlxav_describe(p, &d)
	return p, d, nil
}

// formatOf returns a pixel format. One that FFmpeg does not know has no components.
func formatOf(number C.int) *format {
	var c C.struct_dlxav_format
	if C.dlxav_describe_format(number, &c) == 0 {
		return &format{name: "(unknown)", refused: true}
	}
	f := &format{
		name:      C.GoString(&c.name[0]),
		log2Width: int(c.log2_width), log2Height: int(c.log2_height),
		refused: c.refused != 0, bigEndian: c.big_endian != 0, floats: c.floats != 0, bayer: c.bayer != 0,
	}
	for _, part := range c.component[:min(c.components, C.dlxav_components)] {
		f.components = append(f.components, component{int(part.plane), int(part.step), int(part.offset), int(part.shift), int(part.depth)})
	}
	return f
}

func failed(sentinel error, call string, code C.int) *core.Error {
	var text [128]C.char
	C.dlxav_error_text(code, &text[0], C.size_t(len(text)))
	return &core.Error{Backend: backend, Call: call, Code: int64(code), Detail: C.GoString(&text[0]), Err: sentinel}
}

// kept owns a frame, which refers to the memory of the tensors.
type kept struct {
	frame unsafe.Pointer
	used  atomic.Int32
}

// keep takes a frame. The caller calls Free once, and so does the memory of every tensor.
func keep(frame unsafe.Pointer) *kept {
	k := &kept{frame: frame}
	k.used.Store(1)
	liveFrames.Add(1)
	return k
}

// Free implements core.Owner.
func (k *kept) Free() {
	if k.used.Add(-1) == 0 {
		C.dlxav_free(k.frame)
		liveFrames.Add(-1)
	}
}

// memory returns memory of the host that one of the frame's buffers must have.
func (k *kept) memory(call string, plane int, low uintptr, size int64) (core.Memory, error) {
	if C.dlxav_within(k.frame, C.uintptr_t(low), C.size_t(size)) == 0 {
		return core.Memory{}, core.Errorf(core.ErrLayout, backend, call, "plane %d: its %d bytes do not lie in one of the frame's buffers", plane, size)
	}
	return k.mapped(low, size), nil
}

func (k *kept) mapped(low uintptr, size int64) core.Memory {
	k.used.Add(1)
	return core.Memory{ID: core.CPU, Handle: low, Size: size, Owner: k}
}

// picture returns the planes of a picture. memory makes the memory of a plane, which owns k; nil stands for memory
// that FFmpeg has mapped, which no buffer of the frame describes.
func (k *kept) picture(call string, d *C.struct_dlxav_frame, memory func(plane int, low uintptr, size int64) (core.Memory, error)) ([]*core.Tensor, error) {
	layouts, err := formatOf(d.format).layouts(call, int(d.width), int(d.height))
	if err != nil {
		return nil, err
	}
	var all []*core.Tensor
	for i, l := range layouts {
		t, err := k.plane(call, i, l, uintptr(d.data[i]), int64(d.linesize[i]), d.writable != 0, memory)
		if err != nil {
			closeAll(all)
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func (k *kept) plane(call string, i int, l layout, data uintptr, stride int64, writable bool, memory func(plane int, low uintptr, size int64) (core.Memory, error)) (*core.Tensor, error) {
	if data == 0 {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "plane %d has no memory", i)
	}
	low, size, err := l.span(call, i, stride)
	if err != nil {
		return nil, err
	}
	var m core.Memory
	if start := data + uintptr(low); memory == nil {
		m = k.mapped(start, size)
	} else if m, err = memory(i, start, size); err != nil {
		return nil, err
	}
	return wrap(m, core.Spec{DType: l.dtype, Shape: l.shape(), Strides: l.strides(stride), Offset: -low}, writable)
}

// sound returns the planes of samples.
func (k *kept) sound(call string, d *C.struct_dlxav_frame) ([]*core.Tensor, error) {
	dtype, planar, err := samplesOf(call, d.format)
	if err != nil {
		return nil, err
	}
	channels, samples, count := int64(d.channels), int64(d.samples), 1
	if channels <= 0 {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "a frame of sound with %d channels", channels)
	}
	if planar {
		count, channels = int(channels), 1
	}
	var all []*core.Tensor
	for i := range count {
		m, err := k.memory(call, i, uintptr(C.dlxav_sound_plane(k.frame, C.int(i))), samples*channels*int64(dtype.Bits/8))
		var t *core.Tensor
		if err == nil {
			t, err = wrap(m, core.Spec{DType: dtype, Shape: []int64{channels, samples}, Strides: []int64{1, channels}}, d.writable != 0)
		}
		if err != nil {
			closeAll(all)
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func samplesOf(call string, format C.int) (t core.DType, planar bool, err error) {
	var isPlanar, floats C.int
	size := C.dlxav_describe_samples(format, &isPlanar, &floats)
	types := map[C.int]core.DType{1: core.TypeUint8, 2: core.TypeInt16, 4: core.TypeInt32, 8: core.TypeInt64}
	if floats != 0 {
		types = map[C.int]core.DType{4: core.TypeFloat32, 8: core.TypeFloat64}
	}
	t, ok := types[size]
	if !ok {
		return t, false, core.Errorf(core.ErrDType, backend, call, "unknown sample format %d", format)
	}
	return t, isPlanar != 0, nil
}

// wrap makes a tensor, which owns the memory. On failure it frees the memory.
func wrap(m core.Memory, s core.Spec, writable bool) (*core.Tensor, error) {
	if !writable {
		s.Flags = core.FlagReadOnly
	}
	t, err := core.Wrap(m, s)
	if err != nil {
		m.Free()
	}
	return t, err
}

func closeAll(all []*core.Tensor) {
	for _, t := range all {
		t.Close()
	}
}
