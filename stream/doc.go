// Package stream keeps work in order. [Queue] is a stream of the host, [Event] a
// point that the host reaches, [Timeline] a counter to wait for.
//
// Order between streams travels with the tensor, whose buffer knows its unfinished
// work. [Submit] enqueues work on any stream behind what it must wait for, and
// notes it on the buffers: every device's Copy is made of it. [Handoff] makes a
// stream wait until a tensor may be read there, on the device if it can and on the
// host if it cannot, and reports which. A [SharedSemaphore] belongs to two devices,
// for streams that cannot wait for each other's events.
//
// [FromDLPack] and [ToDLPack] translate the numbers by which DLPack's consumers
// name their streams.
package stream
