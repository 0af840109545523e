package core

import "context"

// The interfaces of this file are optional. The capability that stands for an interface
// decides whether a Device has that ability: ask by [As]. A device type may implement
// the methods always. Where the device does not declare the capability, they fail with
// ErrNotSupported, and those that list handle types return none.

// PointerImporter wraps memory that somebody else allocated, without a copy.
type PointerImporter interface {
	// ImportPointer returns size bytes at the address p of this device. On
	// success the memory owns owner, which may be nil, and frees it last; on
	// failure the caller keeps it. It fails with ErrInvalid if p is not
	// memory of the device or the range leaves its allocation, as far as the API can tell.
	ImportPointer(p uintptr, size int64, owner Owner) (Memory, error)
}

// HostMapper lets the device use host memory in place.
type HostMapper interface {
	// MapHost returns memory of this device that is the memory of host, which is
	// host-accessible, has a known size, and is kept alive by a reference until the
	// result is freed. Result and host have the same Size.
	//
	// Where host does not begin and end at multiples of HostAlignment, the device
	// may map the whole units that host touches, as long as these lie within the
	// system's pages that host touches: beyond them nothing needs to be mapped. The
	// result's Handle is then that of the wider mapping and its Offset the bytes up
	// to host's first; the bytes around are not the result's, and keep what they
	// hold. A device that does not do so fails with ErrInvalid, as it does for
	// memory that the host cannot reach or whose size is unknown.
	MapHost(ctx context.Context, host *Buffer) (Memory, error)
	// HostAlignment is the unit in which the device maps host memory: a power of
	// two of bytes. Memory whose address and size are multiples of it is mapped
	// just as it is; whether other memory can be, MapHost tells.
	// In Vulkan it is minImportedHostPointerAlignment.
	HostAlignment() int64
}

// HostViewer lets the host use device memory in place.
type HostViewer interface {
	// HostView returns memory of the host (ID is [CPU], Device nil) that is the
	// memory of b, and is kept alive by a reference until the result is freed.
	// Result and b have the same Size.
	//
	// The host may read it while no work that writes b is unfinished, and write it
	// while no work on b is; what it wrote is seen by work enqueued later. Nothing
	// needs to be flushed. It fails with ErrNotSupported for memory that the host
	// cannot reach: memory allocated with AllocOptions.HostVisible it can.
	HostView(ctx context.Context, b *Buffer) (Memory, error)
}

// StreamImporter wraps streams of other libraries.
type StreamImporter interface {
	// ImportStream returns a stream that enqueues its work on native, a handle as
	// [Stream.Native] returns. Whoever made native keeps it, and keeps it open
	// until the result is closed; Close waits for the work and leaves native open.
	// It fails with ErrInvalid if native is 0 or not a stream of the device, as far as the API can tell.
	ImportStream(ctx context.Context, native uintptr) (Stream, error)
}

// MemoryExporter gives memory away by handle. Only memory that was allocated
// with AllocOptions.Export can be exported.
type MemoryExporter interface {
	// ExportTypes are the handle types that Alloc can be asked for.
	ExportTypes() []HandleType
	// ExportMemory returns a handle of b, which the caller closes or gives to an
	// importer. The memory outlives b as long as a handle or an import is open: no pool
	// hands any of it out again while one may be, which is for good where the API cannot
	// tell.
	ExportMemory(b *Buffer, t HandleType) (ExternalMemory, error)
	// EndExport says that nobody has the memory of b open by a handle any more, nor
	// will open it, so that it can be freed with its last tensor. Where the API does
	// not count who has it open, as with HandleIPC, exported memory stays allocated
	// until its device is closed, unless EndExport was called after the last export.
	// Where the API counts, EndExport does nothing. It fails with ErrInvalid if b was
	// not allocated for export, with ErrDevice if it belongs to another device, and
	// with ErrClosed.
	EndExport(b *Buffer) error
}

// MemoryImporter opens memory that was exported elsewhere.
type MemoryImporter interface {
	// ImportTypes are the handle types that ImportMemory takes.
	ImportTypes() []HandleType
	// ImportMemory opens m. On success it takes the payload of the handle, which is
	// empty then; on failure the handle is as it was. It fails with ErrNotSupported
	// for a type that the device does not import, or IPC handles of another vendor; with ErrDevice
	// if the UUIDs do not match; with ErrClosed if the handle is empty; and with
	// ErrInvalid if its descriptor is not open or stands for less than m says.
	ImportMemory(ctx context.Context, m ExternalMemory) (Memory, error)
}

// Semaphore is a timeline: a counter that only grows. Streams wait for a value
// and signal one. The caller closes it after the last work that uses it.
type Semaphore interface {
	// Signal enqueues on s that the counter is set to value, which must be larger than before.
	Signal(s Stream, value uint64) error
	// WaitOn makes later work on s wait until the counter has reached value.
	WaitOn(s Stream, value uint64) error
	// Value is the counter now. It may fail with ErrNotSupported for a semaphore
	// that was imported, where the host cannot read it.
	Value() (uint64, error)
	// Wait blocks the caller until the counter has reached value or ctx ends.
	Wait(ctx context.Context, value uint64) error
	// Close releases the semaphore. A second Close does nothing.
	Close() error
}

// SemaphoreCreator makes semaphores for the streams of its backend and for the host.
type SemaphoreCreator interface {
	// NewSemaphore returns a semaphore at value 0. If t is not 0, a
	// [SemaphoreExporter] can export it as t; where that cannot be, it fails with
	// ErrNotSupported.
	NewSemaphore(ctx context.Context, t HandleType) (Semaphore, error)
}

// SemaphoreExporter gives semaphores away by handle. A device that is one is a
// [SemaphoreCreator] too.
type SemaphoreExporter interface {
	// SemaphoreExportTypes are the handle types that NewSemaphore can be asked for.
	SemaphoreExportTypes() []HandleType
	// ExportSemaphore returns a handle of s, which NewSemaphore made for t. The
	// caller closes it or gives it to an importer. It fails with ErrNotSupported for
	// a type that the device does not export, and with ErrInvalid if s was not made
	// for t.
	ExportSemaphore(s Semaphore, t HandleType) (ExternalSemaphore, error)
}

// SemaphoreImporter opens semaphores that were exported elsewhere.
type SemaphoreImporter interface {
	// SemaphoreImportTypes are the handle types that ImportSemaphore takes.
	SemaphoreImportTypes() []HandleType
	// ImportSemaphore opens x. On success it takes the payload of the handle, which is
	// empty then; on failure the handle is as it was. It fails with ErrNotSupported
	// for a type that the device does not import, with ErrDevice if the UUIDs do not
	// match, with ErrClosed if the handle is empty, and with ErrInvalid if its
	// descriptor is not open.
	ImportSemaphore(ctx context.Context, x ExternalSemaphore) (Semaphore, error)
}

// IPCEvent is an event that streams of several processes record and wait for. Each
// Record moves it to a new point, and a wait is for the point where it was then: that
// the record comes before the wait the processes must agree on by other means. It is
// safe for concurrent use.
type IPCEvent interface {
	// Export returns a handle by which another process opens the event. The caller
	// closes it. Export fails with ErrClosed.
	Export() (ExternalEvent, error)
	// Record moves the event behind all work that was enqueued on s, a stream of the
	// event's device. It fails with ErrDevice for nil and for a stream of another device, and with ErrClosed.
	Record(s Stream) error
	// WaitOn makes work enqueued on s later wait for the point of the latest Record,
	// by any process; if there was none, for nothing. It fails as Record does.
	WaitOn(s Stream) error
	// Close releases the event. Waits for it that were enqueued stay. A second Close
	// does nothing.
	Close() error
}

// IPCEventCreator makes events that other processes open, and opens those of others.
type IPCEventCreator interface {
	// NewIPCEvent makes an event. The caller closes it after the other processes have
	// closed theirs.
	NewIPCEvent(ctx context.Context) (IPCEvent, error)
	// OpenIPCEvent opens the event of another process, which the caller closes. On
	// success it takes the payload of the handle, which is empty then; on failure the
	// handle is as it was. It fails with ErrNotSupported for a handle of another type
	// or vendor, and where this process made the event and the API cannot open it
	// twice; with ErrDevice if the UUIDs do not match; with ErrClosed if the handle is
	// empty; and with ErrInvalid if its payload is not that of an event, or
	// the process that made the event is gone.
	OpenIPCEvent(ctx context.Context, x ExternalEvent) (IPCEvent, error)
}

// PeerCopier copies to and from another device of the same backend without the host.
type PeerCopier interface {
	// CanPeer reports whether direct copies between this device and peer work; the error
	// is the reason why not: ErrNotSupported where the machine has no way between them.
	CanPeer(peer Device) error
	// CopyPeer is [Device.Copy] where src lies on peer.
	CopyPeer(ctx context.Context, s Stream, dst, src *Tensor, peer Device) error
}

// PoolStats are the figures of a device's memory pool, in bytes unless said otherwise.
type PoolStats struct {
	InUse     int64 `json:"in_use"`    // handed out, rounded up to size classes
	Requested int64 `json:"requested"` // handed out, as asked for
	Cached    int64 `json:"cached"`    // kept for reuse
	Peak      int64 `json:"peak"`      // highest InUse
	Limit     int64 `json:"limit"`     // on InUse + Cached; 0 is none
	Allocs    int64 `json:"allocs"`    // number of Alloc calls
	Hits      int64 `json:"hits"`      // of those, served from the cache
	Failures  int64 `json:"failures"`  // of those, refused
}

// PoolController shows and governs the memory pool of a device.
type PoolController interface {
	PoolStats() PoolStats
	// SetPoolLimit bounds InUse + Cached; 0 removes the limit. Memory in use is never taken back.
	SetPoolLimit(limit int64)
	// TrimPool gives cached memory back to the system.
	TrimPool()
}
