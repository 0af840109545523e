// Package cpu is the backend of the host: memory that the processor addresses, and copies by goroutines. It
// needs no driver and no cgo. Other backends are tested against it.
//
// # Memory
//
// A device allocates from its own pool. The pool rounds a size up to a size class: to a multiple of 256 bytes below 2 KiB,
// and by at most an eighth from 2 KiB on. Every block is aligned to 256 bytes. Where the system offers it,
// the memory lies outside of Go's heap, so its addresses may be given to C and kept there.
//
// The pool keeps freed blocks for reuse. core.PoolController.TrimPool, a pool limit and Close of the device
// return them to the system. Blocks of up to 32 KiB share spans, and a span is returned as a whole: a free
// block stays in the pool while its span has a block in use.
//
// # Sharing
//
// On Linux, memory that is allocated with AllocOptions.Export = core.HandleMemFD lies on a memfd, which other
// processes can map. The memfd is sealed against any change of its size. ImportMemory refuses a descriptor
// without that seal: another process could shrink the file, and every later access would be a SIGBUS.
//
// # Order
//
// Streams are queues whose work runs in goroutines, in order (stream.Queue). A copy runs on its stream, or in
// the caller if there is none, with up to GOMAXPROCS goroutines. The first contiguous copies from 256 KiB
// to 32 MiB are timed to find out how many of them are fastest. If the environment variable DLX_COPY_SHARE is a positive number, such
// as 8388608, a contiguous copy of at least 256 KiB has one for each so many bytes instead. Semaphores are timelines within the process (stream.Timeline).
package cpu
