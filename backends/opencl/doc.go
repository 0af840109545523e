// Package opencl is the backend of OpenCL 1.2 to 3.0. Its devices are all devices of all platforms of the ICD
// loader: opencl:0, opencl:1 and so on, in the loader's order.
//
// It is built with the tag opencl, on Linux with cgo, from the Khronos headers (opencl-headers on Debian).
// The program is linked with no OpenCL library. libOpenCL is opened at run time, so a program starts without
// it, and Probe of the backend that [New] returns says what is missing.
//
// # Tensors
//
// The handle of memory on kDLOpenCL is the cl_mem, which DLPack has as the data of a DLTensor. byte_offset
// counts from its first byte. [MemOf] returns both. Kernels take the offset as an argument, or [SubBuffer]
// makes a cl_mem that begins at the first element. Alloc makes a cl_mem with offset 0 for each memory. It ignores
// core.AllocOptions.Stream: freed memory is used again when the work on it is done.
//
// Properties.Alignment is the alignment of offsets. Where the host sees the memory, fine-grained SVM aligns
// its address to 128 bytes, the most that clSVMAlloc can be asked for. A tensor that came by DLPack must
// belong to the device's cl_context. [HandlesOf] returns that cl_context, and [Wrap] opens a device over the
// one of another library.
//
// # Your own commands
//
// Stream.Native is the cl_command_queue of the stream. Commands that you enqueue on it run in order with the
// copies of the stream. [core.StreamImporter] makes a stream of your own queue, in-order or out-of-order. For
// any other queue:
//
//   - Before your command, let the queue wait for the tensor: make a stream of the queue and call
//     [stream.Handoff], or wait on the host by Tensor.WaitReady.
//   - After your command, flush the queue, and record the write by Buffer.Wrote([ImportEvent](event)), or a read
//     by Buffer.Used.
//
// # Memory that the host uses too
//
// Memory that Alloc makes with HostVisible is fine-grained SVM under a cl_mem, and so is all memory where
// that costs nothing. Nothing maps or unmaps it.
//
// Memory that MapHost makes is host memory under a cl_mem with CL_MEM_USE_HOST_PTR, and so is HostVisible
// memory where there is no such SVM. MapHost refuses memory that the host cannot write. A driver may keep a copy of it. Between commands it belongs to the host,
// and the copies of this package transfer it to the driver and back. If you enqueue commands of your own on
// such a cl_mem, do the same (OpenCL 3.0 API, Mapping Buffer Objects):
//
//   - Before the command, call clEnqueueMapBuffer with CL_MAP_WRITE_INVALIDATE_REGION, and
//     clEnqueueUnmapMemObject. The driver then has what the host wrote.
//   - After a command that wrote the memory, call clEnqueueMapBuffer with CL_MAP_READ, and
//     clEnqueueUnmapMemObject. The host then has what the command wrote.
//
// Memory that was imported by a descriptor is acquired before a command and released after it
// (cl_khr_external_memory). For a cl_mem of another library, that library must keep
// the accesses of the host and of the driver apart.
//
// # Order
//
// Streams of a device wait on the device for each other, and for events of [ImportEvent]. For events of other
// devices the host waits, in stream.Submit. Semaphores are counters on the host, and user events let the
// queues wait for them. A command that waits for a failed command fails too: this is the driver's rule, and
// the waiting stream reports the error.
//
// # Strided copies
//
// OpenCL's commands for rectangles copy rectangles. In memory that host and device share, the host makes all
// other strided copies, in the order of the queue, since that is at least as fast. In other memory a kernel
// gathers the elements. It is compiled on first use. Between such memory and the host, elements are packed on
// both sides.
//
// # Errors
//
// An error of the driver names the call, the code and the code's name. Work counts as running while the
// driver fails to report whether it is done.
//
// Some errors cannot be detected: a handle that was released already, and, with many drivers, a handle of
// another kind. An address that is not a handle is refused only where the driver supports the ICD loader,
// whose objects all begin with the same pointer.
package opencl
