package vulkan

import (
	"context"
	"os"

	"github.com/dlx-go/dlx/core"
)

// Option changes what [New] makes.
type Option func(*options)

// WithValidation turns the Khronos validation layer on for all that the backend
// opens. Opening fails with core.ErrNotSupported where it is not installed. See [Messages].
func WithValidation() Option { return func(o *options) { o.validation = true } }

// New returns the backend "vulkan". It serves every physical device that has
// Vulkan 1.1 with timeline semaphores and a queue that computes, in the order
// of the loader. A device may be opened several times, each time with a VkInstance,
// a VkDevice and a pool of its own. The library is opened by the first call of a
// method; DLX_VULKAN_LIBRARY names another one than the system's.
//
// With DLX_VULKAN_VALIDATION=1 in the environment the validation layer is on, and
// Close of a device fails with ErrInvalid if the layer has said anything since it was opened: for tests.
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

// Messages returns how many warnings and errors the validation layer has given in
// this process, and the texts of those behind the first, as far as they are kept.
func Messages(first uint64) (count uint64, texts []string) { return messages(first) }

// KeepVulkanGo is called, before anything else of this package, by a program that
// uses github.com/vulkan-go/vulkan itself and has initialised it with vk.Init and
// vk.InitInstance: that package keeps the functions of libvulkan in variables, one
// set for the process. Without this call the first instance that is opened here
// sets them, and those of extensions that dlx does not use become NULL.
func KeepVulkanGo() { keepVulkanGo() }

// Wrap opens a device over a VkDevice of another library, so that VkBuffers of it can
// be imported (see ImportPointer of [core.PointerImporter]) and tensors be used with it. The
// instance must be of Vulkan 1.1 or newer, the VkDevice must have the feature
// timelineSemaphore on, and of the features
// storageBuffer16BitAccess and storageBuffer8BitAccess those that the physical device
// has. It fails with ErrInvalid if a handle is 0, and with ErrNotSupported or
// ErrVersion for a device that does not serve; that the handles are what they should be nobody can tell.
func Wrap(ctx context.Context, h Handles) (core.Device, error) { return wrap(ctx, h) }

// BufferOf tells what t stands on, and the bytes from the start of the VkBuffer to the
// first element. It fails with ErrDevice for a tensor that is not on Vulkan,
// ErrClosed, and ErrInvalid or ErrVersion if the tensor's handle, which a foreign
// library may have made, is no DLVulkanBuffer.
func BufferOf(t *core.Tensor) (b Buffer, offset int64, err error) { return bufferOf(t) }
