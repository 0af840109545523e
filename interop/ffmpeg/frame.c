#include "frame.h"

#include <errno.h>
#include <string.h>

#include <libavutil/frame.h>
#include <libavutil/hwcontext.h>
#include <libavutil/hwcontext_cuda.h>
#include <libavutil/pixdesc.h>
#include <libavutil/samplefmt.h>

int dlxav_describe_format(int format, struct dlxav_format *f) {
	const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(format);
	memset(f, 0, sizeof *f);
	if (!d)
		return 0;
	strncpy(f->name, d->name, sizeof f->name - 1);
	f->components = d->nb_components;
	f->log2_width = d->log2_chroma_w;
	f->log2_height = d->log2_chroma_h;
	f->refused = (d->flags & (AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_PAL)) != 0;
	f->big_endian = (d->flags & AV_PIX_FMT_FLAG_BE) != 0;
	f->floats = (d->flags & AV_PIX_FMT_FLAG_FLOAT) != 0;
	f->bayer = (d->flags & AV_PIX_FMT_FLAG_BAYER) != 0;
	for (int i = 0; i < dlxav_components; i++) {
		const AVComponentDescriptor *c = &d->comp[i];
		f->component[i] = (struct dlxav_component){c->plane, c->step, c->offset, c->shift, c->depth};
	}
	return 1;
}

int dlxav_describe_samples(int format, int *planar, int *floats) {
	enum AVSampleFormat packed = av_get_packed_sample_fmt(format);
	*planar = av_sample_fmt_is_planar(format);
	*floats = packed == AV_SAMPLE_FMT_FLT || packed == AV_SAMPLE_FMT_DBL;
	return av_get_bytes_per_sample(format);
}

void dlxav_describe(void *frame, struct dlxav_frame *d) {
	const AVFrame *f = frame;
	memset(d, 0, sizeof *d);
	d->width = f->width;
	d->height = f->height;
	d->samples = f->nb_samples;
	d->channels = f->ch_layout.nb_channels;
	d->format = f->format;
	d->counted = f->buf[0] != NULL;
	d->writable = d->counted && av_frame_is_writable(frame) > 0;
	d->hardware = f->hw_frames_ctx != NULL;
	d->hardware_format = -1;
	if (d->hardware) {
		const AVHWFramesContext *c = (const void *)f->hw_frames_ctx->data;
		d->hardware_format = c->sw_format;
		d->cuda = f->format == AV_PIX_FMT_CUDA && c->device_ctx && c->device_ctx->type == AV_HWDEVICE_TYPE_CUDA;
		if (d->cuda)
			d->stream = (uintptr_t)((const AVCUDADeviceContext *)c->device_ctx->hwctx)->stream;
	}
	for (int i = 0; i < dlxav_planes; i++) {
		d->data[i] = (uintptr_t)f->data[i];
		d->linesize[i] = f->linesize[i];
	}
}

uintptr_t dlxav_sound_plane(void *frame, int plane) {
	const AVFrame *f = frame;
	if (!f->extended_data || (f->extended_data == f->data && plane >= AV_NUM_DATA_POINTERS))
		return 0;
	return (uintptr_t)f->extended_data[plane];
}

static int has(const AVBufferRef *b, uintptr_t low, size_t size) {
	uintptr_t start = b ? (uintptr_t)b->data : 0;
	return b && low >= start && low - start <= b->size && size <= b->size - (low - start);
}

int dlxav_within(void *frame, uintptr_t low, size_t size) {
	const AVFrame *f = frame;
	for (int i = 0; i < AV_NUM_DATA_POINTERS; i++)
		if (has(f->buf[i], low, size))
			return 1;
	for (int i = 0; i < f->nb_extended_buf; i++)
		if (has(f->extended_buf[i], low, size))
			return 1;
	return 0;
}

void *dlxav_clone(void *frame) { return av_frame_clone(frame); }

void dlxav_free(void *frame) {
	AVFrame *f = frame;
	av_frame_free(&f);
}

int dlxav_map(void *frame, void **mapped) {
	const AVFrame *f = frame;
	if (f->format == AV_PIX_FMT_VULKAN) {
		int code = dlxav_wait_vulkan(frame, 60ull * 1000 * 1000 * 1000);
		if (code < 0)
			return code;
	}
	AVFrame *m = av_frame_alloc();
	if (!m)
		return AVERROR(ENOMEM);
	m->format = ((const AVHWFramesContext *)f->hw_frames_ctx->data)->sw_format;
	int code = av_hwframe_map(m, f, AV_HWFRAME_MAP_READ | AV_HWFRAME_MAP_DIRECT);
	if (code < 0)
		av_frame_free(&m);
	*mapped = m;
	return code;
}

/* The fields of DLPack's DLManagedTensorVersioned up to its deleter. Every version of DLPack from 1.0 on has them. */
struct managed {
	uint32_t major, minor;
	void *context;
	void (*deleter)(struct managed *);
};

static void release(void *opaque, uint8_t *data) {
	struct managed *m = opaque;
	(void)data;
	if (m && m->deleter)
		m->deleter(m);
}

int dlxav_set_plane(void *frame, int plane, uintptr_t data, int linesize, uintptr_t low, size_t size, int read_only, void *managed) {
	AVFrame *f = frame;
	f->buf[plane] = av_buffer_create((uint8_t *)low, size, release, managed, read_only ? AV_BUFFER_FLAG_READONLY : 0);
	if (!f->buf[plane])
		return AVERROR(ENOMEM);
	f->data[plane] = (uint8_t *)data;
	f->linesize[plane] = linesize;
	return 0;
}

void dlxav_set_video(void *frame, int format, int width, int height) {
	AVFrame *f = frame;
	f->format = format;
	f->width = width;
	f->height = height;
}

int dlxav_set_audio(void *frame, int format, int channels, int samples) {
	AVFrame *f = frame;
	f->format = format;
	f->nb_samples = samples;
	av_channel_layout_default(&f->ch_layout, channels);
	return f->ch_layout.nb_channels == channels ? 0 : AVERROR(EINVAL);
}

void dlxav_error_text(int code, char *text, size_t size) {
	if (av_strerror(code, text, size) < 0)
		strncpy(text, "unknown error", size - 1);
}
