// Package stream keeps work in order. A [Queue] is a stream that runs on the host, an
// [Event] is done when the host says so, and a [Timeline] is a counter that goroutines and
// queues wait for.
//
// The buffer of a tensor records the events of its unfinished work, so that the order of
// work follows the tensor from stream to stream. [Submit] enqueues work on a stream after
// the work that it must wait for, and records it on the buffers. Every device implements
// Copy with Submit. [Handoff] makes a stream wait until a tensor may be read there. If the
// stream cannot wait, Handoff waits on the host; it reports which of the two happened. A
// [SharedSemaphore] orders the streams of two devices that cannot wait for each other's
// events.
//
// [FromDLPack] and [ToDLPack] translate the numbers by which consumers of DLPack name their
// streams.
package stream
