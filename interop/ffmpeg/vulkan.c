/* FFmpeg maps the memory of a Vulkan frame without waiting for the work on it. */
#include "frame.h"

#include <errno.h>

#include <libavutil/error.h>
#include <libavutil/frame.h>
#include <libavutil/hwcontext.h>
#include <libavutil/pixdesc.h>

#if __has_include(<vulkan/vulkan.h>)

#include <libavutil/hwcontext_vulkan.h>

int dlxav_wait_vulkan(void *frame, uint64_t nanoseconds) {
	const AVFrame *f = frame;
	const AVHWFramesContext *c = (const void *)f->hw_frames_ctx->data;
	const AVVulkanDeviceContext *d = c->device_ctx->hwctx;
	const AVVkFrame *v = (const void *)f->data[0];
	if (!v || !d->get_proc_addr)
		return AVERROR(EINVAL);
	PFN_vkGetDeviceProcAddr find = (PFN_vkGetDeviceProcAddr)d->get_proc_addr(d->inst, "vkGetDeviceProcAddr");
	PFN_vkWaitSemaphores wait = find ? (PFN_vkWaitSemaphores)find(d->act_dev, "vkWaitSemaphores") : NULL;
	if (!wait)
		return AVERROR(ENOSYS);
	uint32_t n = 0;
	while (n < AV_NUM_DATA_POINTERS && v->sem[n])
		n++;
	VkSemaphoreWaitInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
		.semaphoreCount = n,
		.pSemaphores = v->sem,
		.pValues = v->sem_value,
	};
	switch (n ? wait(d->act_dev, &info, nanoseconds) : VK_SUCCESS) {
	case VK_SUCCESS:
		return 0;
	case VK_TIMEOUT:
		return AVERROR(ETIMEDOUT);
	default:
		return AVERROR_EXTERNAL;
	}
}

#else

int dlxav_wait_vulkan(void *frame, uint64_t nanoseconds) {
	(void)frame, (void)nanoseconds;
	return AVERROR(ENOSYS);
}

#endif
