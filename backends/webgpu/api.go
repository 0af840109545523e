package webgpu

import "github.com/dlx-go/dlx/core"

// New returns the backend "webgpu": one device for each adapter of Vulkan that the library lists, in its order, from webgpu:0
// on. A device may be opened several times; each has a WGPUDevice of its own.
func New() core.Backend { return newBackend() }

// DeviceOf returns the WGPUDevice of an open device, which the device owns. A program makes buffers with it that
// core.PointerImporter takes. DeviceOf fails with core.ErrDevice for a device of another backend.
func DeviceOf(d core.Device) (uintptr, error) { return deviceOf(d) }
