// Package opencl is the backend of OpenCL 1.2 to 3.0: every device of every
// platform of the ICD loader, as opencl:0, opencl:1 and so on in the loader's order.
//
// It is built with the tag opencl, cgo and Linux, from the Khronos headers
// (opencl-headers on Debian), and links no library: libOpenCL is opened at run time,
// and a program that lacks it starts all the same. [New]'s Probe says what is missing.
//
// # A tensor
//
// The handle of memory on kDLOpenCL is the cl_mem, in DLPack the data of a DLTensor,
// and byte_offset counts from its first byte; [MemOf] gives both. Kernels take the
// offset as an argument, or [SubBuffer] gives a cl_mem that begins at the first
// element. Memory of Alloc is a cl_mem of its own with offset 0. Properties.Alignment is that of
// offsets; where the host sees the memory, fine-grained SVM aligns it to 128 bytes,
// the most that clSVMAlloc can be asked for. A tensor that came by DLPack must be of
// the device's cl_context, which [HandlesOf] gives and [Wrap] takes from another library.
//
// # Your own commands
//
// Stream.Native is the cl_command_queue, in order. What is enqueued on it stands in
// order with the copies of the stream; [core.StreamImporter] makes a stream of a queue
// of yours, in order or not. For other queues:
//
//   - before your command, have it wait for the tensor: make a stream of its queue,
//     and call stream.Handoff, or wait on the host by Tensor.WaitReady;
//   - behind it, flush the queue and note the write: Buffer.Wrote([EventOf](event)), or
//     Buffer.Used where it only reads.
//
// # Memory that the host uses too
//
// Memory of Alloc with HostVisible, and where that costs nothing all memory, is
// fine-grained SVM under a cl_mem: nobody maps or unmaps it. What MapHost made, and
// HostVisible memory where there is no such SVM, is host memory under a cl_mem with
// CL_MEM_USE_HOST_PTR, of which a driver may keep a copy. It is the host's between
// commands: the copies of this package hand it over and back. Who enqueues commands of
// their own on such a cl_mem does so too: clEnqueueMapBuffer with
// CL_MAP_WRITE_INVALIDATE_REGION and clEnqueueUnmapMemObject before, which takes what
// the host wrote, and, where it was written, clEnqueueMapBuffer with CL_MAP_READ and
// clEnqueueUnmapMemObject behind (OpenCL 3.0 API, Mapping Buffer Objects). Memory
// that was imported by descriptor is acquired before a command and released behind it
// (cl_khr_external_memory). A cl_mem of another library takes turns with the host by
// that library's doing.
//
// # Order
//
// Streams wait on the device for each other and for events of [EventOf]; for those of
// other devices the host waits, in stream.Submit. Semaphores are counters of the host
// behind user events. A command that waits for one that fails, fails too: that is
// the driver's rule, and an error of the stream that waits.
//
// # Strided copies
//
// Rectangles go by the rectangular commands of OpenCL. In memory that host and device
// share the host copies, in its turn of the queue, since that is at least as fast.
// Elsewhere a kernel gathers the elements, compiled when it is first needed;
// between such memory and the host they are packed on either side.
//
// # Errors
//
// An error of the driver names the call, the code and its name. Where a driver fails
// to tell whether work is done, it counts as running. What cannot be told: whether a handle
// was released already, and with many drivers of what kind it is. Addresses that are
// no handles are refused where the driver is one for the ICD loader, since its objects
// all begin alike.
package opencl
