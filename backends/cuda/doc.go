// Package cuda is the backend for cards of NVIDIA, by CUDA's driver API. To build it, a program needs the build tag
// cuda, Linux, cgo and the headers of CUDA 12. The driver's library is opened when it is first needed.
//
// # Memory
//
// Plain memory lies on the card. With AllocOptions.Type, Alloc returns pinned host memory (core.DeviceCUDAHost) or
// memory that the driver moves to where it is used (core.DeviceCUDAManaged). Each device has one pool for all of
// them. Memory can be released while work on it is unfinished. The pool can give it at once to a stream that waits
// for that work on the card (AllocOptions.Stream). Memory for other APIs and processes must be allocated for export
// (AllocOptions.Export). The pool does not use it again, and nothing else lies in such an allocation.
//
// A pool keeps at most an eighth of the card's memory besides what has unfinished work, and returns to the driver what
// nobody has used for 10 to 20 seconds. If an allocation fails, all pools of the card return what they keep. The driver
// does not say when another library fails to allocate: a program then calls TrimPools, and tries again.
//
// A dma-buf (core.HandleDMABuf) lets another device use memory of a card, such as a network card by RDMA. Nothing orders
// its accesses with work of streams: wait until that is done before the other device begins, and enqueue no work before
// it has ended.
//
// # Contexts and threads
//
// The backend uses the device's primary context, as PyTorch, CuPy and the runtime API do. Pointers and streams of
// theirs can therefore be used here. Any goroutine may call. A call restores the context that was current on its
// thread, and leaves a stream capture of other code valid. The legacy stream is not used, except where a caller
// imports it by its number (ImportStream of CU_STREAM_LEGACY).
//
// # Order
//
// Streams of all cards wait for each other's events on the card. For events of other backends the host waits, or a
// stream waits for a timeline semaphore that Vulkan exports and CUDA imports (core.SemaphoreImporter,
// stream.SharedSemaphore).
//
// # Opening a device
//
// Open loads the kernels for strided copies, unless the device is open already. The driver may wait for all work of
// the device's primary context while it loads code. Open a device before any library makes a stream of that context
// wait for something that the program does after Open. No copy loads code later. If the driver has no compiler for the
// card, Open succeeds, and strided copies within the card fail with core.ErrNotSupported.
//
// # Files
//
// Devices read files into plain memory by cuFile, the library of GPUDirect Storage (core.FileReader). The first OpenFile
// of the process opens libcufile.so.0, or the library that the environment variable DLX_CUFILE_LIBRARY names. If that
// fails, each later OpenFile returns the same error. The library stays loaded. It has a configuration of its own, by which it
// may also read through host memory. dlx has used it with a fake only, not on a card.
//
// # Failed work
//
// If work fails on the card, its context is lost, for example with CUDA_ERROR_ILLEGAL_ADDRESS. Each later call
// returns the error. What is open can still be closed.
package cuda
