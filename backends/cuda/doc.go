// Package cuda is the backend for cards of NVIDIA, by CUDA's driver API. It needs the
// build tag cuda, Linux, cgo and, when it is built, the headers of CUDA 12; the
// driver's library is opened when it is first needed.
//
// # Memory
//
// Plain memory lies on the card. AllocOptions.Type asks for memory of the host
// that is pinned (core.DeviceCUDAHost) or that the driver moves to whoever touches it
// (core.DeviceCUDAManaged). All of it comes from one pool for each device, which is
// ordered by streams: memory that was released with its work unfinished may be handed to a
// stream that waits for that work on the card (AllocOptions.Stream). Memory that others shall
// open is allocated for it (AllocOptions.Export), and never used again.
//
// # Contexts and threads
//
// Everything happens in the device's primary context, which PyTorch, CuPy and the
// runtime API use too: their pointers and streams are this device's. Any goroutine may
// call; the context that a thread has current is left as it was, and so is a capture
// of a stream into a graph that somebody else has begun. The legacy stream is used only
// where a caller names it (ImportStream of CU_STREAM_LEGACY).
//
// # Order
//
// Streams wait for each other's events on the card, across the cards of a machine. Events of
// other backends are waited for by the host, or by a timeline semaphore that Vulkan
// exports and CUDA imports (core.SemaphoreImporter, stream.SharedSemaphore).
//
// # What fails
//
// An error of asynchronous work takes its context with it (CUDA_ERROR_ILLEGAL_ADDRESS and
// its like): the device is lost, each later call says so, and what is open can still be closed.
package cuda
