// Package stream keeps work in order. A [Queue] is a stream that runs on the host. An
// [Event] is done when the program completes it. A [Timeline] is a counter that goroutines and
// queues wait for.
//
// The buffer of a tensor records the events of its unfinished work. Work on another stream
// can therefore wait for them. [Submit] makes a stream wait for earlier work on some tensors,
// enqueues work, and records its event on their buffers. Every device implements Copy with
// Submit. [Handoff] makes a stream wait until a tensor may be read there. If the stream
// cannot wait, Handoff waits on the host; it reports which of the two happened. A
// [SharedSemaphore] orders the streams of two devices that cannot wait for each other's
// events.
//
// [FromDLPack] and [ToDLPack] convert between streams and the numbers that DLPack uses for
// them.
package stream
