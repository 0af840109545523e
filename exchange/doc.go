// Package exchange moves a tensor to the device where it is needed next, without
// a copy wherever the two devices allow that, and says which way it went and why.
//
// [To] does it at once; [Plan] only decides. A [Route] prints the decision in
// words, and [Route.Run] carries it out. The ways, the best first:
//
//   - [Alias]: the memory belongs to the device already, or is host memory and the
//     device is the host.
//   - [Map]: the device uses the memory in place. Host memory is mapped into the
//     device; the host views the memory of a device; memory that was allocated for
//     export is imported by another device or API; memory that the host views is
//     mapped into a third device.
//   - [Peer]: one copy between two devices of a backend, without the host.
//   - [Direct]: one copy, made by one of the two devices, which reaches the memory of the other.
//   - [Staged]: two copies through host memory, in pieces, both at the same time.
//
// # Lifetime
//
// The source stays the caller's and the result is the caller's. A result that
// shares memory keeps the source's memory alive, and both keep one order of work:
// a write through one is waited for by readers of the other.
//
// What was opened for a move (a mapping, an imported handle) stays open as long as
// the memory it was made of, so that the next move of the same memory opens
// nothing. It is given back when that memory is freed, or when the device is
// closed and no tensor uses it. For a device that does not implement
// [core.CloseNotifier] nothing is kept: what was opened is given back with the last
// tensor that uses it.
//
// # Devices
//
// The package knows devices by the interfaces of core alone. An ability counts if
// the device implements its interface and declares its capability.
package exchange
