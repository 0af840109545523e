//go:build vulkan && linux && cgo

package vulkan

import (
	"context"

	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// KeepVulkanGo is called, before anything else of this package, by a program that
// uses github.com/vulkan-go/vulkan itself and has initialised it with vk.Init and
// vk.InitInstance: that package keeps the functions of libvulkan in variables, one
// set for the process. Without this call the first instance that is opened here
// sets them, and those of extensions that dlx does not use become NULL.
func KeepVulkanGo() { driver.KeepVulkanGo() }

// Wrap opens a device over a VkDevice of another library, so that VkBuffers of it can
// be imported (see ImportPointer of [core.PointerImporter]) and tensors be used with it. The
// instance must be of Vulkan 1.1 or newer, the VkDevice must have the feature
// timelineSemaphore on, and of the features
// storageBuffer16BitAccess and storageBuffer8BitAccess those that the physical device
// has. It fails with ErrInvalid if a handle is 0, and with ErrNotSupported or
// ErrVersion for a device that does not serve; that the handles are what they should be nobody can tell.
func Wrap(ctx context.Context, h Handles) (core.Device, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if h.Instance == 0 || h.PhysicalDevice == 0 || h.Device == 0 || h.Queue == 0 || h.Family < 0 || h.Index < 0 {
		return nil, errorf(core.ErrInvalid, "Wrap", "Instance, PhysicalDevice, Device or Queue is 0, or Family or Index negative")
	}
	i, err := driver.WrapInstance(uint64(h.Instance))
	if err != nil {
		return nil, err
	}
	p, err := i.Physical(uint64(h.PhysicalDevice))
	if err == nil {
		err = p.Usable()
	}
	if err != nil {
		return nil, err
	}
	v, err := driver.WrapDevice(p, uint64(h.Device), uint64(h.Queue), h.Family, h.Extensions, h.Lock)
	if err != nil {
		return nil, err
	}
	return openDevice(i, v, options{}, h.Index)
}
