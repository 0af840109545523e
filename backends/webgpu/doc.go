// Package webgpu is the backend of WebGPU on Linux, over wgpu-native, which runs WebGPU on Vulkan. Its devices are the
// adapters of Vulkan that the library lists, in its order, from webgpu:0 on.
//
// The backend needs only the tag webgpu and cgo to build. The library is opened at run time: libwgpu_native.so, or what
// DLX_WEBGPU_LIBRARY names, of wgpu-native 29 or later. PyPI's package wgpu has it. Probe of the backend that [New] returns says
// what is missing.
//
// # Tensors
//
// The handle of memory is a WGPUBuffer, and the offset counts from its first byte. That is also DLPack's data for
// kDLWebGPU, which no other library exchanges today. A tensor that another library exports has a buffer that the device does not
// know: pass the handle of its memory to ImportPointer, and close the tensor when that memory is freed. Each allocation is a buffer that is used for copies in both directions and
// as storage (COPY_SRC, COPY_DST, STORAGE); its size is rounded up to a multiple of 4. The device keeps freed buffers, and
// hands them out again for the same size (core.PoolController): a reference of the program does not keep the contents. A buffer has
// at most the device's maxBufferSize. ImportPointer takes a WGPUBuffer of the same WGPUDevice, and adds a reference to it. WebGPU cannot say whether an
// address is a buffer: a wrong one may crash. A program must not map or destroy a buffer while tensors use it: wgpu-native ends the
// process when commands with such a buffer are submitted.
//
// The host never sees the memory of a buffer that a device may use (WebGPU, "Buffer Mapping"), so there is no view, and
// nothing of the host can be mapped. WebGPU has no handle of memory or of order for other APIs or processes; exchange copies.
//
// # Order
//
// A device has one queue. Streams are host queues ([github.com/dlx-go/dlx/stream.Queue]), which can wait for events of any device.
// A piece of work submits its commands, and is done when the callback of wgpuQueueOnSubmittedWorkDone has come. The backend polls
// the device for it: wgpuDevicePoll that waits keeps other goroutines, and the program, from submitting, so that only copies of at most
// 32 MiB that nothing else is in front of are waited for so. Copies and conversions within the
// device are submitted before earlier ones are done, since the queue keeps the order, also between streams. Copies from and to the host,
// and what waits for other devices or the host, wait for the work before.
//
// # Copies
//
// WebGPU copies multiples of 4 bytes at multiples of 4. Everything else is done by compute shaders, which change single bytes
// by atomic operations. From the host, bytes go by wgpuQueueWriteBuffer; to the host, through a buffer that is mapped. A copy
// within one buffer takes a temporary buffer, since a shader may not have one buffer for reading and writing. Elements of fewer than 8
// bits are copied where they lie on whole bytes.
//
// # Errors
//
// Errors of WebGPU's scopes are errors of the call: core.ErrOutOfMemory, or core.ErrInvalid with the message of the
// library. After the device was lost, or somebody called wgpuDeviceDestroy, every call fails with core.ErrDeviceLost. What was
// opened must still be closed. wgpu-native ends the process if a device is lost while commands are submitted.
package webgpu
