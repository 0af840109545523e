package core

import "context"

// The interfaces of this file are optional: a Device that offers one declares the
// capability of the same name and is found by a type assertion.

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
	// host-accessible and kept alive by a reference until the result is freed.
	// It fails with ErrInvalid where address or size do not suit HostAlignment.
	MapHost(ctx context.Context, host *Buffer) (Memory, error)
	// HostAlignment is what address and size must be multiples of, in bytes.
	HostAlignment() int64
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

// ExternalMemory names a whole allocation beyond its API. Descriptors have one
// owner: see [MemoryExporter] and [MemoryImporter].
type ExternalMemory struct {
	Type       HandleType
	FD         int      // for descriptors, else -1
	Pointer    uintptr  // for HandleHostPointer
	Opaque     [64]byte // for HandleCUDAIPC
	Size       int64    // bytes of the whole allocation
	Offset     int64    // bytes from its start to the buffer's start
	Length     int64    // bytes of the buffer
	Dedicated  bool     // the allocation belongs to one resource; importers must say so too
	DeviceUUID UUID
	DriverUUID UUID
}

// MemoryExporter gives memory away by handle. Only memory that was allocated
// with AllocOptions.Export can be exported.
type MemoryExporter interface {
	// ExportTypes are the handle types that Alloc can be asked for.
	ExportTypes() []HandleType
	// ExportMemory returns a handle of b. The caller owns a descriptor in it and
	// closes it or gives it to an importer. The memory outlives b as long as a
	// descriptor or an import is open.
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
	// Value is the counter now.
	Value() (uint64, error)
	// Wait blocks the caller until the counter has reached value or ctx ends.
	Wait(ctx context.Context, value uint64) error
	// Close releases the semaphore. A second Close does nothing.
	Close() error
}

// SemaphoreExporter makes semaphores that another API can open.
type SemaphoreExporter interface {
	// NewSemaphore returns a semaphore at value 0, exportable as t if t is not 0.
	NewSemaphore(ctx context.Context, t HandleType) (Semaphore, error)
	// ExportSemaphore returns a descriptor, which the caller owns.
	ExportSemaphore(s Semaphore, t HandleType) (fd int, err error)
}

// SemaphoreImporter opens semaphores of another API.
type SemaphoreImporter interface {
	// ImportSemaphore opens fd; on success the semaphore owns it, on failure it stays the caller's.
	ImportSemaphore(ctx context.Context, fd int, t HandleType) (Semaphore, error)
}

// PeerCopier copies to and from another device of the same backend without the host.
type PeerCopier interface {
	// CanPeer reports whether direct copies between this device and peer work; the error is the reason why not.
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
