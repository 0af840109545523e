//go:build cgo

package avtest

// #cgo pkg-config: libavutil
// #cgo CFLAGS: -I${SRCDIR}/../../include
// #include <stdatomic.h>
// #include <stdlib.h>
// #include <string.h>
// #include <libavutil/frame.h>
// #include <libavutil/hwcontext.h>
// #include <libavutil/hwcontext_cuda.h>
// #include <libavutil/imgutils.h>
// #include <libavutil/log.h>
// #include <libavutil/pixdesc.h>
//
// static int next_format(int format) {
// 	const AVPixFmtDescriptor *d = av_pix_fmt_desc_next(format < 0 ? NULL : av_pix_fmt_desc_get(format));
// 	return d ? (int)av_pix_fmt_desc_get_id(d) : -1;
// }
//
// static int linesize(int format, int width, int plane) { return av_image_get_linesize(format, width, plane); }
//
// static uint32_t component(AVFrame *f, int c, int x, int y) {
// 	uint32_t v = 0;
// 	av_read_image_line2(&v, (const uint8_t **)f->data, f->linesize, av_pix_fmt_desc_get(f->format), x, y, c, 1, 0, 4);
// 	return v;
// }
//
// static void flip(AVFrame *f) {
// 	const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
// 	for (int i = 0; i < av_pix_fmt_count_planes(f->format); i++) {
// 		int rows = i == 1 || i == 2 ? AV_CEIL_RSHIFT(f->height, d->log2_chroma_h) : f->height;
// 		f->data[i] += (ptrdiff_t)f->linesize[i] * (rows - 1);
// 		f->linesize[i] = -f->linesize[i];
// 	}
// }
//
// static void set_data(AVFrame *f, int plane, uintptr_t data, int linesize) {
// 	f->data[plane] = (uint8_t *)data;
// 	f->linesize[plane] = linesize;
// }
//
// static void drop_references(AVFrame *f) {
// 	for (int i = 0; i < AV_NUM_DATA_POINTERS; i++)
// 		f->buf[i] = NULL;
// }
//
// /* hardware_frame gives a frame an image of a new frames context of a new device. */
// static int hardware_frame(AVFrame *f, const char *type, const char *option, int format, int sw_format, int width, int height) {
// 	AVBufferRef *device = NULL, *frames = NULL;
// 	AVDictionary *options = NULL;
// 	if (*option)
// 		av_dict_set(&options, option, "1", 0);
// 	int code = av_hwdevice_ctx_create(&device, av_hwdevice_find_type_by_name(type), NULL, options, 0);
// 	av_dict_free(&options);
// 	if (code < 0)
// 		return code;
// 	frames = av_hwframe_ctx_alloc(device);
// 	av_buffer_unref(&device);
// 	AVHWFramesContext *c = (void *)frames->data;
// 	c->format = format;
// 	c->sw_format = sw_format;
// 	c->width = width;
// 	c->height = height;
// 	code = av_hwframe_ctx_init(frames);
// 	if (code >= 0)
// 		code = av_hwframe_get_buffer(frames, f, 0);
// 	av_buffer_unref(&frames);
// 	return code;
// }
//
// static int upload(AVFrame *dst, AVFrame *src) { return av_hwframe_transfer_data(dst, src, 0); }
//
// /* How often the memory of any frame of cuda_frame was freed. */
// static atomic_int cuda_freed;
//
// static void count_freed(void *opaque, uint8_t *data) {
// 	(void)opaque, (void)data;
// 	cuda_freed++;
// }
//
// static int cuda_freed_so_far(void) { return cuda_freed; }
//
// /* cuda_frame makes a frame as FFmpeg's CUDA would, with memory and a stream of somebody else: of the device and
//  * the frames context only the fields are there, since FFmpeg's own need a driver with arrays and textures. */
// static int cuda_frame(AVFrame *f, int sw_format, int width, int height, uintptr_t data, size_t size, uintptr_t stream) {
// 	AVBufferRef *device = av_hwdevice_ctx_alloc(AV_HWDEVICE_TYPE_CUDA);
// 	if (!device)
// 		return AVERROR(ENOSYS);
// 	((AVCUDADeviceContext *)((AVHWDeviceContext *)device->data)->hwctx)->stream = (CUstream)stream;
// 	AVBufferRef *frames = av_hwframe_ctx_alloc(device);
// 	av_buffer_unref(&device);
// 	AVHWFramesContext *c = (void *)frames->data;
// 	c->format = AV_PIX_FMT_CUDA;
// 	c->sw_format = sw_format;
// 	c->width = width;
// 	c->height = height;
// 	f->format = AV_PIX_FMT_CUDA;
// 	f->width = width;
// 	f->height = height;
// 	f->hw_frames_ctx = frames;
// 	f->buf[0] = av_buffer_create((uint8_t *)data, size, count_freed, NULL, 0);
// 	return av_image_fill_arrays(f->data, f->linesize, (uint8_t *)data, sw_format, width, height, 64);
// }
//
// static void planar_sound(AVFrame *f, int format, int channels, int samples) {
// 	f->format = format;
// 	f->nb_samples = samples;
// 	f->ch_layout = (AVChannelLayout){.order = AV_CHANNEL_ORDER_UNSPEC, .nb_channels = channels};
// }
//
// static uintptr_t sound_plane(AVFrame *f, int plane) { return (uintptr_t)f->extended_data[plane]; }
import "C"

import (
	"unsafe"

	"github.com/asticode/go-astiav"
)

func frame(f *astiav.Frame) *C.AVFrame { return (*C.AVFrame)(f.UnsafePointer()) }

// Quiet keeps FFmpeg from printing.
func Quiet() { C.av_log_set_level(C.AV_LOG_QUIET) }

// Formats returns all pixel formats that FFmpeg knows.
func Formats() (all []astiav.PixelFormat) {
	for n := C.next_format(-1); n >= 0; n = C.next_format(n) {
		all = append(all, astiav.PixelFormat(n))
	}
	return all
}

// Linesize returns how many bytes FFmpeg needs for a row of a plane.
func Linesize(f astiav.PixelFormat, width, plane int) int {
	return int(C.linesize(C.int(f), C.int(width), C.int(plane)))
}

// Planes returns how many planes a format has.
func Planes(f astiav.PixelFormat) int { return int(C.av_pix_fmt_count_planes(C.enum_AVPixelFormat(f))) }

// Component returns what FFmpeg reads of a component of a pixel.
func Component(f *astiav.Frame, component, x, y int) uint32 {
	return uint32(C.component(frame(f), C.int(component), C.int(x), C.int(y)))
}

// Data returns a pointer of the frame, and the distance of its rows.
func Data(f *astiav.Frame, plane int) (address uintptr, linesize int) {
	c := frame(f)
	return uintptr(unsafe.Pointer(c.data[plane])), int(c.linesize[plane])
}

// Fill copies bytes to a plane.
func Fill(f *astiav.Frame, plane int, p []byte) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(frame(f).data[plane])), len(p)), p)
}

// SetData sets what Data returns.
func SetData(f *astiav.Frame, plane int, address uintptr, linesize int) {
	C.set_data(frame(f), C.int(plane), C.uintptr_t(address), C.int(linesize))
}

// Flip makes the last row the first one.
func Flip(f *astiav.Frame) { C.flip(frame(f)) }

// WithoutReferences calls a function while the frame has no references to its memory.
func WithoutReferences(f *astiav.Frame, run func()) {
	c := frame(f)
	kept := c.buf
	C.drop_references(c)
	run()
	c.buf = kept
}

// HardwareFrame gives a frame memory in a new frames context of a device of FFmpeg, such as "vulkan".
func HardwareFrame(f *astiav.Frame, device, option string, format, elements astiav.PixelFormat, width, height int) error {
	name, o := C.CString(device), C.CString(option)
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(o))
	return result(C.hardware_frame(frame(f), name, o, C.int(format), C.int(elements), C.int(width), C.int(height)))
}

// Upload copies a frame to or from hardware.
func Upload(dst, src *astiav.Frame) error { return result(C.upload(frame(dst), frame(src))) }

// CUDAFrame makes a frame of CUDA over memory and a stream of the caller. freed counts the frames of CUDA that were
// freed since: one at a time.
func CUDAFrame(f *astiav.Frame, elements astiav.PixelFormat, width, height int, data uintptr, size int64, stream uintptr) (freed func() int, err error) {
	before := C.cuda_freed_so_far()
	err = result(C.cuda_frame(frame(f), C.int(elements), C.int(width), C.int(height), C.uintptr_t(data), C.size_t(size), C.uintptr_t(stream)))
	return func() int { return int(C.cuda_freed_so_far() - before) }, err
}

// SetSound sets what a frame of sound is, for AllocBuffer.
func SetSound(f *astiav.Frame, format astiav.SampleFormat, channels, samples int) {
	C.planar_sound(frame(f), C.int(format), C.int(channels), C.int(samples))
}

// Sound returns the address of a plane of sound.
func Sound(f *astiav.Frame, plane int) uintptr {
	return uintptr(C.sound_plane(frame(f), C.int(plane)))
}

// ImageSize returns the bytes of a picture whose rows are multiples of 64 bytes.
func ImageSize(f astiav.PixelFormat, width, height int) int64 {
	return int64(C.av_image_get_buffer_size(C.enum_AVPixelFormat(f), C.int(width), C.int(height), 64))
}

func result(code C.int) error {
	if code < 0 {
		return astiav.Error(code)
	}
	return nil
}
