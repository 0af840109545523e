// Package cpu is the backend of the host: memory that the processor reaches
// directly, worked on by goroutines. It needs no driver, works without cgo, and
// is the measure that other backends are tested against.
//
// # Memory
//
// A device allocates from a pool of its own. Sizes are rounded up to classes, at
// most an eighth above what was asked for from 2 KiB on and to 256 bytes below;
// every block is aligned to 256 bytes. The memory lies outside of Go's heap where
// the system offers that, so its addresses may be given to C and kept there.
// Freed blocks are kept for reuse until [core.PoolController.TrimPool], a limit,
// or the device's Close returns them to the system. Blocks up to 32 KiB share
// spans, which go back as a whole: a free block whose neighbour is in use stays
// cached.
//
// # Sharing
//
// On Linux, memory allocated with AllocOptions.Export = [core.HandleMemFD] lies on
// a memfd that is sealed against any change of its size, and can be mapped by
// other processes. ImportMemory refuses a descriptor without that seal, for a peer
// could shrink the file and turn every later access into a SIGBUS.
//
// # Order
//
// Streams are ordered queues of goroutine work ([stream.Queue]). A copy runs on
// its stream, or in the caller if there is none, with up to GOMAXPROCS goroutines.
// Semaphores are timelines of the process ([stream.Timeline]).
package cpu
