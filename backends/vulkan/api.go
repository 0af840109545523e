package vulkan

import (
	"context"
	"os"

	"github.com/dlx-go/dlx/core"
)

// Option configures the backend that [New] returns.
type Option func(*options)

// WithValidation turns the Khronos validation layer on for everything that the backend opens. Opening fails
// with core.ErrNotSupported where the layer is not installed. See [Messages].
func WithValidation() Option { return func(o *options) { o.validation = true } }

// New returns the backend "vulkan". Its devices are the physical devices that have Vulkan 1.1 with timeline
// semaphores and a queue for compute, in the order of the loader. A device may be opened several times. Each
// opened device has its own VkInstance, VkDevice and pool. The first call of a method opens the library: the
// system's libvulkan, or the one that DLX_VULKAN_LIBRARY names.
//
// With DLX_VULKAN_VALIDATION=1 in the environment the validation layer is on, and Close of a device fails
// with core.ErrInvalid if the layer has reported anything since the device was opened. This is for tests.
func New(opts ...Option) core.Backend {
	var o options
	if os.Getenv("DLX_VULKAN_VALIDATION") == "1" {
		o.validation, o.strict = true, true
	}
	for _, set := range opts {
		if set != nil {
			set(&o)
		}
	}
	return newBackend(o)
}

// Messages is for tests with the validation layer. It returns the number of warnings and errors that the
// layer has reported in this process. It also returns their texts, without the first ones, whose number is
// first. Only the newest texts are kept.
func Messages(first uint64) (count uint64, texts []string) { return messages(first) }

// KeepVulkanGo leaves the function variables of github.com/vulkan-go/vulkan unchanged. That package keeps the
// functions of libvulkan in variables, one set for the process. By default the first instance that dlx opens
// sets them, and functions of extensions that dlx does not use become NULL. A program that has itself called
// vk.Init and vk.InitInstance calls KeepVulkanGo before anything else in this package.
func KeepVulkanGo() { keepVulkanGo() }

// Wrap opens a device over a VkDevice of another library. VkBuffers of that VkDevice can then be imported
// (see ImportPointer of [core.PointerImporter]), and tensors of the device can be used with it.
//
// The instance must have Vulkan 1.1 or later. The VkDevice must have the feature timelineSemaphore enabled,
// and also storageBuffer16BitAccess and storageBuffer8BitAccess where the physical device has them. Wrap
// cannot check that the handles are valid. It fails with core.ErrInvalid if a handle is 0, and with
// core.ErrNotSupported or core.ErrVersion if the device cannot be used.
func Wrap(ctx context.Context, h Handles) (core.Device, error) { return wrap(ctx, h) }

// BufferOf returns the VkBuffer of t, and the number of bytes from its start to the first element. It fails
// with core.ErrDevice for a tensor that is not on Vulkan, with core.ErrClosed for a closed one, and with
// core.ErrInvalid or core.ErrVersion if the tensor's handle, which another library may have made, does not
// point to a DLVulkanBuffer.
func BufferOf(t *core.Tensor) (b Buffer, offset int64, err error) { return bufferOf(t) }
