// Package core defines the types that the rest of dlx works with. A [DeviceID] names a
// device, a [DType] is the type of an element, a [Layout] is an arrangement of elements in
// memory, and a [Tensor] is a view of shared memory. Tensors follow the model of DLPack, as
// dlpack.h 1.3 defines it.
//
// The package also defines the interfaces that a backend implements: [Backend], [Device],
// [Stream] and [Event]. Package backendkit has the other types and functions for authors of
// backends.
//
// # Ownership
//
// [Memory] is raw memory with an [Owner]. [Wrap] makes a [Tensor] on it, with a [Buffer]
// that counts its references. Views of the tensor share the buffer. Whoever makes or
// receives a tensor must close it; this includes views. Closing it again does nothing.
// The memory is freed when the last tensor on the buffer is closed and all work on the
// memory is done. [Live] counts the open objects, and [TraceOpen] records where each
// object was opened.
//
// The garbage collector closes tensors that the program lost without closing them. Do not
// rely on it. It runs late: tensors are allocated in groups, and a lost tensor is closed only
// when its whole group is unreachable. An address or a slice from [Values] does not keep its
// tensor open, so the memory may be freed while the program still uses it.
//
// # Order
//
// Work on a device may still run when the call that enqueued it returns. A buffer
// records the event of the last write ([Buffer.Ready]) and the events of all unfinished
// work ([Buffer.Pending]). Readers wait for the last write. Writers, and the release of
// the memory, wait for all unfinished work. [Values], [All], [Mutable] and [AllMutable]
// wait before they give the host access. Code that keeps the order itself, such as a
// function that runs on a stream, uses the variants whose names end in WithoutWaiting.
//
// # Capabilities
//
// What only some devices can do is an optional interface, such as [HostMapper]
// or [MemoryImporter]. The device declares the capability of that interface in its
// [Properties]; [As] checks the capability and returns the interface. Do not use a type
// assertion: a device type may implement every optional interface and return
// ErrNotSupported from the methods whose capability it does not declare. A device that
// wraps another device takes an interface away by clearing its capability.
//
// # Errors of work
//
// A call that enqueues work returns the errors that are known by then. The work may fail
// later. After such a failure:
//
//   - The event of the work is done and always reports the error.
//   - Synchronize of the stream returns the first error since the last Synchronize.
//     Close of the stream returns an error that no Synchronize returned.
//   - The failed write stays the last write to the memory. Waiting for the tensor
//     ([Tensor.WaitReady]) returns the error. Work that reads the tensor, on any device,
//     fails with it. The call that enqueues this work returns the error if it is known by
//     then. Otherwise the event of this work reports it.
//   - Work that overwrites the memory does not fail. It only waits until the failed work
//     is over (SettledWaiter of package backendkit).
//
// A device that implements Copy with Submit of package stream keeps these rules.
//
// # Errors
//
// Every error wraps one of the sentinel errors of this package, except the error of a
// context that ended. The error of a failed call is an [*Error], which names the backend,
// the call and the API's code. No input makes the package panic, with two exceptions:
// [Layout.Dim] and [Layout.Stride] panic if the axis is out of range, as indexing a slice
// does.
//
// The package is pure Go and imports only the standard library.
package core
