// Package metal is the backend "metal": the GPUs of a Mac by Apple's Metal, in builds for macOS with the tag metal. It
// needs no cgo.
//
// The package has not run on a Mac yet. Its logic passes the conformance suite over a simulated Metal; the calls of the
// system are checked against Apple's headers only. `make mac-kit` makes a program that an owner of a Mac runs to find out.
//
// The handle of memory is its id<MTLBuffer>, which is also `data` of a DLPack tensor; the offset is beside it and is never
// added to it. See [BufferOf].
//
// # Memory
//
// On a Mac with unified memory, which is every one with Apple silicon, all memory has the storage mode shared: the host
// reaches it in place (core.HostViewer). On others, plain memory is private to the GPU, and memory that was allocated with
// AllocOptions.HostVisible is shared. Managed memory is not allocated, because its two copies would have to be synchronised
// around every use. An MTLBuffer of another library may be managed; only the GPU uses it then.
//
// Host memory is used in place (core.HostMapper), page by page, by newBufferWithBytesNoCopy. Memory that another device has
// allocated is not, because Metal takes memory of mmap and vm_allocate only.
//
// # Streams
//
// A stream is an MTLCommandQueue with an MTLSharedEvent, whose value counts the work that is done. Streams of all GPUs wait
// for each other by these. core.StreamImporter takes an id<MTLCommandQueue> of another library. Two things differ from other
// APIs, since a command buffer must not wait long for the host:
//
//   - Work of the host is not in the queue. It is part of a copy between the host and memory that the host does not reach,
//     and of small copies in shared memory. Other code that uses the same queue waits for an event of the stream
//     ([EventOf]) before it uses what such a copy has written.
//   - An event of a stream whose queue other code uses (core.Stream.Native was called, or the queue was imported) also
//     stands for the command buffers that were committed there before. It relies on command buffers of one queue being
//     completed in their order, as every library does; Apple's documentation says only that they start so.
//
// A queue has room for as many uncompleted command buffers as it was made for, usually 64. Two streams over one queue, a
// queue that was made with less room, and other users of it can fill it: Copy and Record then block until it has room.
// That is no deadlock.
//
// Semaphores are shared events ([SharedEventOf]). They cannot be passed to another process, because an MTLSharedEventHandle
// travels only in an XPC message.
//
// # Errors
//
// A command buffer that fails makes the events of its work fail, with the code of its NSError. Afterwards the device works
// on, unless the GPU was removed or the system has barred the process from it (core.ErrDeviceLost).
package metal
