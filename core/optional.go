package core

import "context"

// The interfaces of this file are optional. A device offers an interface if it declares the
// capability of that interface; [As] checks it. A device type may implement the
// methods in any case. If the device does not declare the capability, the methods return
// ErrNotSupported, and those that list handle types return none.

// PointerImporter wraps memory that another library allocated, without a copy.
type PointerImporter interface {
	// ImportPointer returns a Memory for size bytes at the address p of this device, or for
	// the object with the handle p. On success the memory owns owner, which may be nil, and
	// frees it last. On failure the caller keeps owner. ImportPointer returns ErrInvalid if
	// p is not memory of the device, or if the bytes do not lie within one allocation, as
	// far as the API can tell. If size is 0, p is not used, and may be anything.
	ImportPointer(p uintptr, size int64, owner Owner) (Memory, error)
}

// HostMapper lets the device use host memory in place.
type HostMapper interface {
	// MapHost returns a Memory of this device that is the memory of host. The result has
	// the same Size as host, and keeps a reference to host until it is freed. host must be
	// host-accessible and have a known size.
	//
	// If host does not begin and end at multiples of HostAlignment, the device may map a
	// larger range, which consists of whole units of HostAlignment bytes. The larger range
	// must lie within the pages of the system that host touches, because other pages may
	// not exist. The result's Handle then names the larger range, and its Offset is the
	// number of bytes before the first byte of host. The device must not change the other
	// bytes.
	//
	// The result has the origin of host, see [Memory.OriginType]. If the host cannot write
	// the memory, Memory.ReadOnly of the result is true.
	//
	// MapHost returns the errors of CanMap, and ErrInvalid if the device cannot map host or
	// if its size is not known. If host.ReadOnly() is true and the memory is not marked as
	// Memory.ReadOnly, MapHost asks the system whether the host can write it. The driver may
	// refuse any memory, for example memory that it has mapped before.
	MapHost(ctx context.Context, host *Buffer) (Memory, error)
	// CanMap returns nil if MapHost can map host, as far as the fields of host tell. It does
	// not call the driver. Otherwise it returns the reason: ErrInvalid if the host cannot
	// access the memory, ErrReadOnly if the host cannot write it and the driver maps only
	// memory that it may write, and ErrNotSupported if the driver does not map memory of its
	// origin.
	CanMap(host Memory) error
	// HostAlignment returns the number of bytes in a unit in which the device maps host
	// memory. It is a power of two. The device can map memory whose address and size are
	// multiples of it. Whether it can map other memory, only MapHost reports. In Vulkan the
	// number is minImportedHostPointerAlignment.
	HostAlignment() int64
}

// HostViewer lets the host use device memory in place.
type HostViewer interface {
	// HostView returns a Memory of the host that is the memory of b. Its ID is [CPU] and
	// its Device is nil. It has the same Size and the same origin as b (see
	// [Memory.OriginType]), and keeps a reference to b until it is freed.
	//
	// The host may read the memory while no work that writes it is unfinished, and may
	// write it while no work on it is unfinished. Work that is enqueued later sees what the
	// host wrote; the host need not flush it. HostView returns ErrNotSupported for memory
	// that the host cannot access. The host can access memory that was allocated with
	// AllocOptions.HostVisible.
	HostView(ctx context.Context, b *Buffer) (Memory, error)
}

// StreamImporter wraps streams of other libraries.
type StreamImporter interface {
	// ImportStream returns a stream that enqueues its work on native, which is a handle as
	// [Stream.Native] returns it. The owner of native must keep it open until the result is
	// closed. Close of the result waits for the work, and leaves native open. ImportStream
	// returns ErrInvalid if native is not a stream of the device, as far as the API can tell.
	// 0 is a stream only on ROCm, whose default stream it is, as in DLPack.
	ImportStream(ctx context.Context, native uintptr) (Stream, error)
}

// MemoryExporter exports memory as a handle, for another API or another process. Only
// memory that was allocated with AllocOptions.Export can be exported, and memory of another
// library that allocated it for such handles, if the API can find that out. A handle of such
// memory names all that the library allocated at once; the library says how long it lives.
type MemoryExporter interface {
	// ExportTypes returns the handle types that AllocOptions.Export accepts.
	ExportTypes() []HandleType
	// ExportMemory returns a handle of b. The caller closes it or passes it to an importer.
	// The memory stays allocated while the handle or an import of it is open, even after b
	// is released. The device does not reuse the memory during that time. If the API cannot
	// tell when the last import is closed, the memory stays allocated as
	// [MemoryExporter.EndExport] describes.
	ExportMemory(b *Buffer, t HandleType) (ExternalMemory, error)
	// EndExport declares that no handle and no import of b's memory is open, and that none
	// will be opened. The memory can then be freed with its last tensor. With some handle
	// types, such as HandleIPC, the API does not count imports. Memory that was exported by
	// such a handle stays allocated until its device is closed, unless EndExport was called
	// after the last export. If the API counts imports, EndExport does nothing.
	//
	// EndExport returns ErrInvalid if b was not allocated for export, ErrDevice if it
	// belongs to another device, and ErrClosed if the device was closed or b was released.
	EndExport(b *Buffer) error
}

// MemoryImporter opens memory that another API or another process exported.
type MemoryImporter interface {
	// ImportTypes returns the handle types that ImportMemory accepts.
	ImportTypes() []HandleType
	// ImportMemory opens m. On success it takes the payload of m.Handle, which is empty
	// afterwards. On failure it does not change the handle. If the handle permits only
	// reading, Memory.ReadOnly of the result is true. ImportMemory returns
	//
	//   - ErrNotSupported for a handle type that the device does not import, and for an IPC
	//     handle of another vendor;
	//   - ErrDevice if the UUIDs are not those of the device and its driver;
	//   - ErrClosed if the handle is empty;
	//   - ErrInvalid if the descriptor of the handle is not open, or if it stands for less
	//     memory than m says.
	ImportMemory(ctx context.Context, m ExternalMemory) (Memory, error)
}

// Semaphore is a counter that only grows, which APIs call a timeline semaphore. Streams
// signal a value, which sets the counter, and wait for a value. The caller closes a
// Semaphore after the last work that uses it.
type Semaphore interface {
	// Signal enqueues work on s that sets the counter to value. value must be larger than
	// all values that were signaled before.
	Signal(s Stream, value uint64) error
	// WaitOn makes work that is enqueued on s later wait until the counter has reached
	// value.
	WaitOn(s Stream, value uint64) error
	// Value returns the present value of the counter. It may return ErrNotSupported for an
	// imported semaphore that the host cannot read.
	Value() (uint64, error)
	// Wait blocks the caller until the counter has reached value or ctx ends.
	Wait(ctx context.Context, value uint64) error
	// Close releases the semaphore. A second Close does nothing. A stream that waits for a
	// value which only Signal could set fails with ErrClosed. A value of a semaphore that was
	// exported or imported can still come from elsewhere: on some devices streams go on
	// waiting for it, and cannot be closed before.
	Close() error
}

// BinarySemaphore is a [Semaphore] of the type [HandleBinaryFD], for drivers that share no counters. Its values only
// number its uses. A use is one Signal and, after that has returned, one WaitOn for the same value, on any side of the
// semaphore. The next use begins when the stream that waited has passed the wait. The sides must agree on that by other
// means, such as an event of that stream.
//
// Signal and WaitOn submit to the driver before they return. They return ErrNotSupported if they cannot, because
// earlier work of the stream waits for the host or for work that may not be submitted yet. Value and Wait return
// ErrNotSupported.
type BinarySemaphore interface {
	Semaphore
	// Release makes a stream that waits for value by this semaphore go on, in place of a signal that will never come
	// because its device is lost or its process has ended. The device may be unable to do other work before. Release
	// does nothing if the wait is over, and returns ErrInvalid if value is not the latest that was waited for.
	Release(ctx context.Context, value uint64) error
}

// SemaphoreCreator makes semaphores for the streams of its backend and for the host.
type SemaphoreCreator interface {
	// NewSemaphore returns a semaphore at value 0. The caller closes it. If t is not 0, a
	// [SemaphoreExporter] can export the semaphore as a handle of type t. NewSemaphore
	// returns ErrNotSupported if the device cannot export semaphores as t.
	NewSemaphore(ctx context.Context, t HandleType) (Semaphore, error)
}

// SemaphoreExporter exports semaphores as handles. A device that has this capability is also a
// [SemaphoreCreator].
type SemaphoreExporter interface {
	// SemaphoreExportTypes returns the handle types that NewSemaphore accepts.
	SemaphoreExportTypes() []HandleType
	// ExportSemaphore returns a handle of s. The caller closes it or passes it to an
	// importer. ExportSemaphore returns ErrNotSupported for a handle type that the device
	// does not export, and ErrInvalid if NewSemaphore did not make s for the handle type t.
	ExportSemaphore(s Semaphore, t HandleType) (ExternalSemaphore, error)
}

// SemaphoreImporter opens semaphores that another API or another process exported.
type SemaphoreImporter interface {
	// SemaphoreImportTypes returns the handle types that ImportSemaphore accepts.
	SemaphoreImportTypes() []HandleType
	// ImportSemaphore opens x. On success it takes the payload of x.Handle, which is empty
	// afterwards. On failure it does not change the handle. ImportSemaphore returns
	// ErrNotSupported for a handle type that the device does not import, ErrDevice if the
	// UUIDs are not those of the device and its driver, ErrClosed if the handle is empty,
	// and ErrInvalid if the descriptor of the handle is not open.
	ImportSemaphore(ctx context.Context, x ExternalSemaphore) (Semaphore, error)
}

// IPCEvent is an event that streams of several processes record and wait for. Record sets
// it to a point in the work of a stream. WaitOn waits for the point that was set when
// WaitOn is called. The processes must therefore agree by other means that a Record comes
// before a WaitOn. An IPCEvent is safe for concurrent use.
type IPCEvent interface {
	// Export returns a handle by which another process opens the event. The caller closes
	// the handle. Export returns ErrClosed if the event was closed.
	Export() (ExternalEvent, error)
	// Record sets the event to the point after all work that was enqueued on s, which must
	// be a stream of the event's device. It returns ErrDevice if s is nil or belongs to
	// another device, and ErrClosed if the event or s was closed.
	Record(s Stream) error
	// WaitOn makes work that is enqueued on s later wait for the point that the latest
	// Record of any process set. If there was no Record, nothing waits. WaitOn fails as
	// Record does.
	WaitOn(s Stream) error
	// Close releases the event. Work that already waits for it still waits. A second
	// Close does nothing.
	Close() error
}

// IPCEventCreator makes events that other processes open, and opens events that other
// processes made.
type IPCEventCreator interface {
	// NewIPCEvent returns a new event. The caller closes it, after the other processes have
	// closed the events that they opened from it.
	NewIPCEvent(ctx context.Context) (IPCEvent, error)
	// OpenIPCEvent opens the event of another process. The caller closes the result. On
	// success OpenIPCEvent takes the payload of x.Handle, which is empty afterwards. On
	// failure it does not change the handle. It returns
	//
	//   - ErrNotSupported for a handle of another type or vendor, and if this process made
	//     the event and the API cannot open it twice;
	//   - ErrDevice if the UUIDs are not those of the device and its driver;
	//   - ErrClosed if the handle is empty;
	//   - ErrInvalid if the payload is not that of an event, or the process that made the
	//     event has ended.
	OpenIPCEvent(ctx context.Context, x ExternalEvent) (IPCEvent, error)
}

// PeerCopier copies between two devices of the same backend by the means of its API. If the
// machine has no connection between the devices, the driver may copy through the host.
type PeerCopier interface {
	// CanPeer returns nil if CopyPeer can copy between this device and peer. Otherwise it
	// returns the reason. The error is ErrNotSupported if the API has no such copies for
	// these devices.
	CanPeer(peer Device) error
	// CopyPeer is like [Device.Copy], but src lies on the device peer.
	CopyPeer(ctx context.Context, s Stream, dst, src *Tensor, peer Device) error
}

// BatchCopier copies many tensors in one call. For small tensors that takes much less time
// than as many calls of [Device.Copy].
type BatchCopier interface {
	// CopyBatch does what [Device.Copy] does for each dst[i] and src[i], in the order of the
	// lists: a later copy sees what an earlier one has written, unless that memory has two
	// addresses of which dlx does not know, such as those of two imports of one opaque
	// descriptor. The device submits as many
	// copies as it can at once. If s is nil, CopyBatch returns when all copies are done.
	//
	// CopyBatch returns ErrInvalid if the lists have different lengths. It checks all
	// tensors as CheckCopy of package backendkit does before it enqueues a copy, and returns the error of the
	// first one that cannot be copied. If CopyBatch fails later, some copies may have been
	// enqueued, which the events of their tensors report. The bytes of every dst are then
	// undefined.
	CopyBatch(ctx context.Context, s Stream, dst, src []*Tensor) error
}

// PoolStats describes the memory pool of a device. Sizes are in bytes.
type PoolStats struct {
	InUse     int64 `json:"in_use"`    // allocated to the program, rounded up to size classes
	Requested int64 `json:"requested"` // allocated to the program, as requested
	Cached    int64 `json:"cached"`    // freed by the program, and kept for reuse
	Peak      int64 `json:"peak"`      // the highest InUse so far
	Limit     int64 `json:"limit"`     // the limit of InUse + Cached; 0 means no limit
	Allocs    int64 `json:"allocs"`    // number of calls of Alloc
	Hits      int64 `json:"hits"`      // number of these calls that reused memory
	Failures  int64 `json:"failures"`  // number of these calls that failed
}

// PoolController reports on the memory pool of a device, and limits it.
type PoolController interface {
	// PoolStats returns the present state of the pool.
	PoolStats() PoolStats
	// SetPoolLimit sets the largest number of bytes that InUse + Cached may reach. 0
	// removes the limit. Alloc returns ErrOutOfMemory if the limit does not leave enough.
	// Memory that is in use is never taken back.
	SetPoolLimit(limit int64)
	// TrimPool returns the memory that is kept for reuse to the system. It helps if another
	// library cannot allocate memory of the device.
	TrimPool()
}
