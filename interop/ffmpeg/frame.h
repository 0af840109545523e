/* What Go needs to know of frames and formats, in structs that do not depend on FFmpeg's version. */
#ifndef DLX_FFMPEG_FRAME_H
#define DLX_FFMPEG_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum { dlxav_planes = 8, dlxav_components = 4 };

/* A component of a pixel format, as in AVComponentDescriptor. */
struct dlxav_component {
	int plane, step, offset, shift, depth;
};

/* A pixel format, as in AVPixFmtDescriptor. */
struct dlxav_format {
	char name[32];
	int components, log2_width, log2_height;
	int refused; /* its components are not elements in memory: bits, a palette, or hardware */
	int big_endian, floats, bayer;
	struct dlxav_component component[dlxav_components];
};

/* A frame, as in AVFrame. */
struct dlxav_frame {
	int width, height, samples, channels, format;
	int counted;  /* its memory has references */
	int writable; /* nobody else has a reference */
	int hardware; /* it is in a hardware frames context */
	int cuda;
	int hardware_format; /* the format of its elements there, or -1 */
	uintptr_t stream;    /* of CUDA */
	uintptr_t data[dlxav_planes];
	int linesize[dlxav_planes];
};

/* Frames are void *, as go-astiav returns them. The functions that return int return 0 or an error of FFmpeg. */

/* dlxav_describe_format reports whether FFmpeg knows the format. */
int dlxav_describe_format(int format, struct dlxav_format *f);

/* dlxav_describe_samples returns the bytes of a sample, or 0. */
int dlxav_describe_samples(int format, int *planar, int *floats);

void dlxav_describe(void *frame, struct dlxav_frame *d);

/* dlxav_sound_plane returns the address of a plane of sound, or 0. */
uintptr_t dlxav_sound_plane(void *frame, int plane);

/* dlxav_within reports whether one of the frame's buffers has all the bytes from low on. */
int dlxav_within(void *frame, uintptr_t low, size_t size);

/* dlxav_clone returns a frame with references of its own, or NULL. dlxav_free frees it. */
void *dlxav_clone(void *frame);
void dlxav_free(void *frame);

/* dlxav_wait_vulkan waits for the work on a frame of Vulkan. It needs Vulkan's headers. */
int dlxav_wait_vulkan(void *frame, uint64_t nanoseconds);

/* dlxav_map maps a frame of hardware into host memory, after the work on it. The caller frees *mapped. */
int dlxav_map(void *frame, void **mapped);

/* dlxav_set_plane lets a buffer of the frame be memory of a managed tensor of DLPack, whose deleter is called when
 * FFmpeg frees the buffer. It takes the tensor on success. */
int dlxav_set_plane(void *frame, int plane, uintptr_t data, int linesize, uintptr_t low, size_t size, int read_only, void *managed);

/* They set the other fields. */
void dlxav_set_video(void *frame, int format, int width, int height);
int dlxav_set_audio(void *frame, int format, int channels, int samples);

void dlxav_error_text(int code, char *text, size_t size);

#endif
