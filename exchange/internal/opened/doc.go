// Package opened keeps open what moves of tensors use again: memory of one device
// that was opened on another, memory of other processes, and for each device
// streams, semaphores and host memory to copy with.
//
// A [Cache] gives memory back when the memory that it was made of is freed, and
// everything of a device before that device closes. It knows nothing of how a move
// is planned: the caller brings the function that opens memory.
package opened
