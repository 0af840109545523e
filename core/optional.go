package core

import (
	"context"
	"math"
	"slices"
)

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

// HandleType is a way to name memory or a semaphore beyond one API or process.
type HandleType uint32

// The handle types.
const (
	HandleOpaqueFD    HandleType = iota + 1 // POSIX descriptor that only the same driver and device understand
	HandleDMABuf                            // Linux dma-buf descriptor
	HandleMemFD                             // memfd: host memory as a descriptor, mapped by mmap
	HandleHostPointer                       // address in this process
	HandleCUDAIPC                           // 64-byte CUipcMemHandle
	HandleMetalShared                       // MTLSharedTextureHandle or IOSurface
)

var handleTypeNames = [...]string{
	"none", "opaque_fd", "dma_buf", "mem_fd", "host_pointer", "cuda_ipc", "metal_shared",
}

// String gives the type's name: "opaque_fd".
func (h HandleType) String() string {
	if int(h) < len(handleTypeNames) {
		return handleTypeNames[h]
	}
	return "unknown"
}

// MarshalText makes a handle type print by name.
func (h HandleType) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what [HandleType.String] prints. It fails with ErrInvalid.
func (h *HandleType) UnmarshalText(text []byte) error {
	i := slices.Index(handleTypeNames[:], string(text))
	if i < 0 {
		return Errorf(ErrInvalid, "core", "UnmarshalText", "%q is no handle type", text)
	}
	*h = HandleType(i)
	return nil
}

// IsFD reports whether handles of this type are descriptors, which somebody must close.
func (h HandleType) IsFD() bool {
	return h == HandleOpaqueFD || h == HandleDMABuf || h == HandleMemFD
}

// ExternalMemory names a whole allocation beyond its API. Type decides which of
// FD, Pointer and Opaque counts; nobody looks at the others, so that the FD of a
// zero value is not standard input. Descriptors have one owner: see
// [MemoryExporter] and [MemoryImporter].
type ExternalMemory struct {
	Type       HandleType
	FD         int      // where Type.IsFD()
	Pointer    uintptr  // for HandleHostPointer
	Opaque     [64]byte // for HandleCUDAIPC
	Size       int64    // bytes of the whole allocation
	Offset     int64    // bytes from its start to the buffer's start
	Length     int64    // bytes of the buffer
	Dedicated  bool     // the allocation belongs to one resource; importers must say so too
	MemoryType uint32   // for HandleOpaqueFD, Vulkan's memoryTypeIndex: an import names the same one (VUID-VkMemoryAllocateInfo-allocationSize-01742), or NoMemoryType
	DeviceUUID UUID
	DriverUUID UUID
}

// NoMemoryType is the MemoryType of memory that Vulkan did not make: that of CUDA's
// virtual memory management. Vulkan imports it with a type that suits its buffer and
// lies on the device, since the specification names none (Vulkan-Docs #1783); CUDA
// opens it by cuMemImportFromShareableHandle. Its DriverUUID is zero: CUDA tells none.
const NoMemoryType uint32 = math.MaxUint32

// MemoryExporter gives memory away by handle. Only memory that was allocated
// with AllocOptions.Export can be exported.
type MemoryExporter interface {
	// ExportTypes are the handle types that Alloc can be asked for.
	ExportTypes() []HandleType
	// ExportMemory returns a handle of b. The caller owns a descriptor in it and
	// closes it or gives it to an importer. The memory outlives b as long as a
	// descriptor or an import is open: no pool hands any of it out again while one
	// may be, which is for good where the API cannot tell.
	ExportMemory(b *Buffer, t HandleType) (ExternalMemory, error)
}

// MemoryImporter opens memory that was exported elsewhere.
type MemoryImporter interface {
	// ImportTypes are the handle types that ImportMemory takes.
	ImportTypes() []HandleType
	// ImportMemory opens m. On success the result owns a descriptor in m; on
	// failure it stays the caller's. It fails with ErrDevice if the UUIDs do not
	// match, ErrInvalid if the descriptor is closed or smaller than it claims.
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

// ExternalSemaphore names a semaphore beyond its API. Type decides which of FD
// and Opaque counts. Descriptors have one owner: see [SemaphoreExporter] and
// [SemaphoreImporter].
type ExternalSemaphore struct {
	Type       HandleType
	FD         int      // where Type.IsFD()
	Opaque     [64]byte // for handles that are neither descriptors nor addresses
	DeviceUUID UUID
	DriverUUID UUID
}

// SemaphoreExporter gives semaphores away by handle. A device that is one is a
// [SemaphoreCreator] too.
type SemaphoreExporter interface {
	// SemaphoreExportTypes are the handle types that NewSemaphore can be asked for.
	SemaphoreExportTypes() []HandleType
	// ExportSemaphore returns a handle of s, which NewSemaphore made for t. The
	// caller owns a descriptor in it and closes it or gives it to an importer. It
	// fails with ErrNotSupported for a type that the device does not export, and
	// with ErrInvalid if s was not made for t.
	ExportSemaphore(s Semaphore, t HandleType) (ExternalSemaphore, error)
}

// SemaphoreImporter opens semaphores that were exported elsewhere.
type SemaphoreImporter interface {
	// SemaphoreImportTypes are the handle types that ImportSemaphore takes.
	SemaphoreImportTypes() []HandleType
	// ImportSemaphore opens x. On success the result owns a descriptor in x; on
	// failure it stays the caller's. It fails with ErrNotSupported for a type that
	// the device does not import, ErrDevice if the UUIDs do not match, ErrInvalid
	// if the descriptor is closed.
	ImportSemaphore(ctx context.Context, x ExternalSemaphore) (Semaphore, error)
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
