// Package core is the vocabulary of dlx: where memory lives ([DeviceID]), what an
// element is ([DType]), how a shape lies in memory ([Layout]), a view of shared
// memory ([Tensor]) and the interfaces that a device must offer ([Backend],
// [Device], [Stream], [Event]). Its model of a tensor is DLPack's, dlpack.h 1.3.
//
// # Ownership
//
// Raw [Memory] has an [Owner]. [Wrap] turns it into a [Tensor] on a counted
// [Buffer]; views share the buffer. Every tensor, a view too, is closed once by
// whoever made it or was given it; more calls of Close do nothing. The buffer is
// freed after the last of its tensors is closed and all work on it is done. [Live]
// counts what is open, [TraceTensors] shows who made it, and the garbage
// collector's net closes a tensor that was forgotten. It is a net, no plan: it
// comes late, only when the tensors made shortly before and after are
// unreachable too, and what was taken from a forgotten tensor, an address or
// [Values], does not hold it back.
//
// # Order
//
// Work on a device may still run when a call returns. A buffer knows the event of
// its last write ([Buffer.Ready]) and of all unfinished work ([Buffer.Pending]):
// readers wait for the first, writers and the release of the memory for the
// second. Order thus travels with the tensor. On the host, [Values], [All], [Mutable]
// and [AllMutable] wait by themselves; code that keeps the order itself, such as work on
// a stream, uses the functions that say WithoutWaiting.
//
// # Optional abilities
//
// What only some devices can do is an optional interface: [HostMapper], [MemoryImporter]
// and others. The capability of that name in [Properties] decides whether a device has the
// ability, and [As] asks for it. A type assertion does not tell: a device type may
// implement all of them, and its methods return ErrNotSupported where the capability is
// not declared. A device that wraps another one takes an ability away by clearing the bit.
//
// # Errors of work
//
// A call that enqueues work returns the errors that are known by then. The work may fail
// later. Then
//
//   - the event of the work is done and reports the error, for good;
//   - Synchronize of its stream returns the first error since the last Synchronize, and
//     Close of the stream returns an error that no Synchronize returned;
//   - the memory that the work writes holds a failed write: waiting for the tensor
//     ([Tensor.WaitReady]) returns the error, and so does work that reads the tensor, on
//     every device: at the call if the error is known by then, else by its own event;
//   - work that overwrites the memory does not fail: it only waits until the failed work
//     is over ([SettledWaiter]).
//
// Package stream's Submit keeps these rules for every device whose Copy is made of it.
//
// # Errors
//
// Every error wraps one of this package's sentinels and, where a call failed, is
// an [*Error] that names backend, call and code. Nothing panics on input, except
// that an axis out of range given to [Layout.Dim] and [Layout.Stride] is a
// programming error, like an index out of range of a slice.
//
// The package is pure Go and needs nothing but the standard library.
package core
