// Package oneapi is the backend of unified shared memory (USM), which DLPack calls kDLOneAPI. Its devices are those of
// OpenCL that have cl_intel_unified_shared_memory: oneapi:0, oneapi:1 and so on, in the loader's order. A physical
// device is then both a device of this backend and one of the backend opencl, whose memory is a cl_mem.
//
// It is built with the tag oneapi, on Linux with cgo, from the Khronos headers (opencl-headers on Debian). The program
// is linked with no library of OpenCL or SYCL. libOpenCL is opened at run time. Level Zero, the other API below SYCL,
// is not called.
//
// # Memory
//
// The handle of memory is its address. Alloc makes shared USM with AllocOptions.HostVisible, or host USM where the
// device has no shared USM that host and device may use at once. Otherwise it makes shared USM where host and device
// share one memory, and device USM elsewhere. Addresses are multiples of 256 bytes. Alloc ignores
// core.AllocOptions.Stream: freed memory is used again when the work on it is done.
//
// # Tensors of other libraries
//
// An allocation belongs to a cl_context. For each address that did not come from Alloc, such as that of a DLPack tensor,
// the driver is asked which allocation it is in, of which kind (device, shared or host) and which device. An
// address is refused with core.ErrInvalid if it is in no allocation of the device's cl_context: the driver knows
// nothing of allocations of other contexts, even of the same platform. Elements outside of the allocation are refused
// with core.ErrLayout. [Wrap] opens a device over the cl_context of a SYCL program, whose allocations are then taken:
// sycl::get_native<sycl::backend::opencl>(context) returns it. [Adopt] does the same for all registries of the process. Memory of SYCL over Level Zero is refused.
//
// DLPack's device_id of kDLOneAPI counts the devices of SYCL; here it is the number N of oneapi:N. They agree where
// SYCL lists the devices of OpenCL first, as on a machine without Level Zero.
//
// # Your own commands, order, and errors
//
// These are as in package opencl: Stream.Native is a cl_command_queue, core.StreamImporter makes a stream of
// your own queue, [ImportEvent] an event of your cl_event, and errors name the call and its code. Kernels get the
// address by clSetKernelArgMemPointerINTEL.
package oneapi
