package webgpu

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// New returns the backend "webgpu": one device for each adapter of Vulkan that the library lists, in its order, from webgpu:0
// on. A device may be opened several times; each has a WGPUDevice of its own.
func New() core.Backend { return newBackend() }

// Wrap opens a device over a WGPUDevice of the program, so that tensors and WGPUBuffers of the program are in one device: see
// [DeviceOf] and core.PointerImporter. index is the number of its adapter among those that Devices of the backend lists. Wrap adds a
// reference to the WGPUDevice, which Close of the result releases; the program still owns its own.
//
// The WGPUDevice must come from the library that this backend opens: a program loads the same file. The device uses the
// queue of the WGPUDevice, and its limits. Errors of the device's calls do not reach the program's error scopes, nor its callback for
// uncaptured errors. While work of dlx is awaited, dlx polls the WGPUDevice; callbacks of the program may then run on a thread of
// dlx. The program must not submit invalid commands, nor destroy the WGPUDevice while dlx has work, since wgpu-native may end the process.
//
// Wrap fails with core.ErrInvalid if device is 0, with core.ErrDevice if there is no adapter of this index, and with
// core.ErrNotSupported if the library is missing. It cannot check that device is a WGPUDevice.
func Wrap(ctx context.Context, device uintptr, index int32) (core.Device, error) {
	return wrap(ctx, device, index)
}

// DeviceOf returns the WGPUDevice of an open device, which the device owns. A program makes buffers with it that
// core.PointerImporter takes. DeviceOf fails with core.ErrDevice for a device of another backend.
func DeviceOf(d core.Device) (uintptr, error) { return deviceOf(d) }
