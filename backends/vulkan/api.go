package vulkan

import (
	"context"
	"os"

	"github.com/dlx-go/dlx/core"
)

// Options are the options of [New]. The zero value is the default.
type Options struct {
	// Validation turns the Khronos validation layer on for everything that the backend opens. Opening fails
	// with core.ErrNotSupported where the layer is not installed. See [Messages].
	Validation bool
}

// New returns the backend "vulkan". Its devices are the physical devices that have Vulkan 1.1 with timeline
// semaphores and a queue for compute, in the order of the loader. A device may be opened several times. Each
// opened device has its own VkInstance, VkDevice and pool. The first call of a method opens the library: the
// system's libvulkan, or the one that DLX_VULKAN_LIBRARY names.
//
// With DLX_VULKAN_VALIDATION=1 in the environment the validation layer is on, and Close of a device fails
// with core.ErrInvalid if the layer has reported anything since the device was opened. This is for tests.
func New(o Options) core.Backend { return newBackend(o.withEnvironment()) }

// withEnvironment returns what the options and the environment ask for.
func (o Options) withEnvironment() options {
	strict := os.Getenv("DLX_VULKAN_VALIDATION") == "1"
	return options{validation: o.Validation || strict, strict: strict}
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

// Wrap opens a device over a VkDevice of another library. VkBuffers of that VkDevice can then be imported by
// [ImportBuffer], its timeline semaphores by [ImportTimeline], and tensors of the device can be used with it. A VkBuffer that
// comes as a tensor of DLPack has a DLVulkanBuffer, whose address ImportPointer of [core.PointerImporter] takes.
//
// The instance must have Vulkan 1.1 or later. The VkDevice must have the feature timelineSemaphore enabled,
// and also storageBuffer16BitAccess and storageBuffer8BitAccess where the physical device has them. Wrap
// cannot check that the handles are valid. It fails with core.ErrInvalid if a handle is 0, and with
// core.ErrNotSupported or core.ErrVersion if the device cannot be used.
func Wrap(ctx context.Context, h Handles) (core.Device, error) { return wrap(ctx, h) }

// ImportBuffer returns a tensor on a VkBuffer that a renderer made. d is a device over the VkDevice of the VkBuffer,
// usually of [Wrap]. dlx uses the memory as it uses its own: it exports the memory if b.ExportTypes says that it was
// allocated with VkExportMemoryAllocateInfo, so that [github.com/dlx-go/dlx/exchange.To] opens it for CUDA without a copy. The
// host uses it in place if b.Mapped is set and the memory type is VK_MEMORY_PROPERTY_HOST_COHERENT_BIT; in other memory the
// device copies.
//
// b needs Buffer, Size and Usage, which must have VK_BUFFER_USAGE_TRANSFER_SRC_BIT, VK_BUFFER_USAGE_TRANSFER_DST_BIT and
// VK_BUFFER_USAGE_STORAGE_BUFFER_BIT. If the memory is known, it needs all fields from Memory to Dedicated. The VkDevice, its
// VkQueue and the UUIDs are those of d. If SharedWith is 0, it is VK_QUEUE_FAMILY_EXTERNAL for memory with ExportTypes
// (VK_QUEUE_FAMILY_FOREIGN_EXT if they are only a dma-buf and d has it), and else VK_QUEUE_FAMILY_IGNORED.
//
// The VkBuffer and its memory stay the renderer's, who may destroy them after owner.Free was called: when the last
// tensor on them is closed and all work of dlx on them is done. owner may be nil. On failure it stays the caller's.
// Work of the renderer is ordered by timeline semaphores (see [ImportTimeline]), or by waiting on the host.
//
// ImportBuffer fails with core.ErrInvalid if the fields contradict each other or the device, with core.ErrDevice if d is
// not a device of this backend, with core.ErrClosed if it is closed, and as [core.Wrap] does if s does not fit the
// VkBuffer. It cannot check that the handles are valid.
func ImportBuffer(d core.Device, b Buffer, s core.Spec, owner core.Owner) (*core.Tensor, error) {
	return importBuffer(d, b, s, owner)
}

// ImportTimeline returns a timeline semaphore that a renderer made with the VkDevice of d (a VkSemaphore of
// VK_SEMAPHORE_TYPE_TIMELINE). A stream of d waits for the renderer by WaitOn, and the renderer for the stream by
// Signal. The renderer and dlx agree on the values: each is larger than those before. Close of the result waits as Close
// of any semaphore does, and leaves the VkSemaphore to the renderer, who keeps it until then.
//
// WaitOn holds the later work of the stream on the host until the renderer has signaled, and so keeps no VkQueue waiting.
// While work of a stream is held so, it is not in a VkQueue yet: the renderer must not make the VkQueue that was passed
// to [Wrap] wait for it. It submits work that waits for a value to another VkQueue, or when Wait of the result has returned.
//
// ImportTimeline fails with core.ErrInvalid if semaphore is 0, with core.ErrDevice if d is not a device of this
// backend, and with core.ErrClosed if it is closed. It cannot check that the handle is valid.
func ImportTimeline(d core.Device, semaphore uint64) (core.Semaphore, error) {
	return importTimeline(d, semaphore)
}

// BufferOf returns the VkBuffer of t, and the number of bytes from its start to the first element. It fails
// with core.ErrDevice for a tensor that is not on Vulkan, with core.ErrClosed for a closed one, and with
// core.ErrInvalid or core.ErrVersion if the tensor's handle, which another library may have made, does not
// point to a DLVulkanBuffer.
func BufferOf(t *core.Tensor) (b Buffer, offset int64, err error) { return bufferOf(t) }
