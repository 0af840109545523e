package cudalike

import (
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/core"
)

// Driver is the driver of an API like CUDA, which a backend implements by the functions of its
// library. It has no state but the library's.
type Driver interface {
	// Load opens the library and initialises it, once for the life of the process. No other
	// method may be called before it has succeeded: opened is the reason why there is no
	// library, s the answer of the initialisation.
	Load() (s Status, opened error)

	// Text returns the name of a code and what it means.
	Text(code int32) string

	// Version returns the newest version of the API that the driver serves, such as "12.4".
	Version() string

	// Devices returns how many devices there are.
	Devices() (int, Status)

	// Describe returns what the device of an ordinal is and lacks.
	Describe(ordinal int32) (Description, Status)

	// CanAccessPeer reports whether a device reaches memory of another one.
	CanAccessPeer(ordinal, peer int32) (bool, Status)

	// Granularity returns what the sizes of [Mapped] memory on a device are multiples of: at
	// least, or, if best is true, for the best speed.
	Granularity(ordinal int32, best bool) (int64, Status)

	// Retain takes a reference to the primary context of a device, which Release gives back.
	Retain(ordinal int32) (Context, Status)
	Release(ordinal int32) Status
}

// Context is a context of a device in a [Driver]. Any goroutine may call its methods: the
// context is current on the calling thread for the time of the call, and no call invalidates
// the capture of a stream that somebody else has begun.
//
// Streams, events, modules and functions are handles of the API. Methods without a word about
// waiting enqueue their work and return.
type Context interface {
	// ID names the context among those of the driver.
	ID() ContextID

	// Alloc allocates memory of the device, AllocHost pinned memory of the host for every
	// context, and AllocManaged memory that the driver moves between the host and the device
	// as either touches it.
	Alloc(size int64) (uintptr, Status)
	AllocHost(size int64) (uintptr, Status)
	AllocManaged(size int64) (uintptr, Status)

	// Free gives back what Alloc or AllocManaged returned, after all work of the device, and
	// FreeHost what AllocHost returned, which no work may be using.
	Free(address uintptr) Status
	FreeHost(address uintptr) Status

	// FreeMemory returns how many bytes of the device are not allocated.
	FreeMemory() (int64, Status)

	// MapHost has the device use memory of the host, at an address of its own. UnmapHost ends
	// that. No work may be using the memory then.
	MapHost(p uintptr, size int64) (address uintptr, s Status)
	UnmapHost(p uintptr) Status

	// Pointer describes an address. The Type of one that is not the driver's memory is 0.
	Pointer(p uintptr) (Pointer, Status)

	// IsHostAllocation reports whether an address of the host is memory of AllocHost of any
	// library, and not memory that was registered.
	IsHostAllocation(p uintptr) bool

	// Mapping returns the mapped range around an address, which may be a part of what is
	// reserved. It fails with NotFound or BadValue if nothing is mapped there.
	Mapping(p uintptr) (start uintptr, size int64, s Status)

	// NewStream makes a stream that does not wait for the legacy stream, nor that for it.
	// DestroyStream gives it back when its work is done.
	NewStream() (stream uintptr, s Status)
	DestroyStream(stream uintptr) Status

	// StreamContext returns the context of a stream that any library made.
	StreamContext(stream uintptr) (ContextID, Status)

	// StreamID returns a number that no other stream ever has, and is not 0. That of the stream
	// of a thread is the calling thread's.
	StreamID(stream uintptr) (uint64, Status)

	// Synchronize waits until the work of a stream is done. It fails with Captured at once if
	// the stream is being captured into a graph.
	Synchronize(stream uintptr) Status

	// CheckCapture fails with Captured if a stream is being captured into a graph.
	CheckCapture(stream uintptr) Status

	// NewEvent makes an event without times, or with. DestroyEvent gives it back: streams that
	// wait for it go on waiting.
	NewEvent(timed bool) (event uintptr, s Status)
	DestroyEvent(event uintptr) Status

	// RecordEvent makes an event of all work that a stream was given. Like WaitEvent, it fails
	// with Captured and does nothing if the stream is being captured into a graph.
	RecordEvent(event, stream uintptr) Status

	// WaitEvent holds later work of a stream back until an event, which may be another
	// context's, is done.
	WaitEvent(stream, event uintptr) Status

	// Query fails with NotReady for an event that is not done.
	Query(event uintptr) Status

	// Elapsed returns the time between two events with times. It fails with NotReady if one is
	// not done.
	Elapsed(from, to uintptr) (time.Duration, Status)

	// Copy copies n bytes between any two of memory of the device, pinned and managed memory.
	// Memory of the host that is not pinned is read or written before it returns.
	Copy(dst, src uintptr, n int64, stream uintptr) Status

	// CopyBox copies a box, whose pitches are at most maxPitch.
	CopyBox(dst, src uintptr, b strided.Box, stream uintptr) Status

	// LoadModule loads the kernels of [Facts], which UnloadModule gives back when no work uses
	// them. A function is valid as long as its module.
	LoadModule(image string) (module uintptr, s Status)
	UnloadModule(module uintptr) Status
	Function(module uintptr, name string) (function uintptr, s Status)

	// Launch launches a kernel whose parameters are two addresses and constants, which are
	// copied.
	Launch(function uintptr, grid [3]uint32, block uint32, dst, src uintptr, constants unsafe.Pointer, stream uintptr) Status

	// HostTurn enqueues work of the host, which runs on a thread of the driver's and calls
	// nothing of the API. In a context that has failed it never runs. RunsTurn reports whether
	// such work runs now; ForgetTurns drops what will never run. See [Turns].
	HostTurn(stream uintptr, work func()) Status
	RunsTurn() bool
	ForgetTurns()

	// EnablePeer lets work of the context use memory of the peer's. It succeeds where the
	// driver has no way for that: it copies through the host then.
	EnablePeer(peer ContextID) Status

	// CopyPeer copies n bytes on a stream of the context, and CopyPeerBox a box.
	CopyPeer(p PeerCopy, n int64, stream uintptr) Status
	CopyPeerBox(p PeerCopy, b strided.Box, stream uintptr) Status

	// NewMapped makes memory on the first of the devices that can be exported as a descriptor,
	// and maps it for all of them, which EnablePeer does not. CloseMapped unmaps it: it lives
	// on while a descriptor or another mapping of it does. No work may be using it.
	NewMapped(size int64, ordinals []int32) (Mapped, Status)
	CloseMapped(m Mapped) Status

	// ExportMapped makes a descriptor, which is the caller's. ImportMapped opens the memory
	// behind one as NewMapped does; the descriptor stays the caller's.
	ExportMapped(m Mapped) (fd int, s Status)
	ImportMapped(fd int, size int64, ordinals []int32) (Mapped, Status)

	// ImportExternal opens memory of size bytes that another API exported as an opaque
	// descriptor, which it takes over, on failure too. dedicated says that the memory belongs
	// to one resource of the other API. CloseExternal gives it back. No work may be using it.
	ImportExternal(fd int, size int64, dedicated bool) (External, Status)
	CloseExternal(x External) Status

	// ImportTimeline opens a timeline semaphore behind an opaque descriptor, which it takes
	// over, on failure too. CloseTimeline gives it back when no work signals it or waits for it.
	ImportTimeline(fd int) (timeline uintptr, s Status)
	CloseTimeline(timeline uintptr) Status

	// SignalTimeline sets the value in the stream's turn. WaitTimeline holds later work of a
	// stream back until the value is reached.
	SignalTimeline(timeline uintptr, value uint64, stream uintptr) Status
	WaitTimeline(timeline uintptr, value uint64, stream uintptr) Status

	// ExportIPC returns the handle by which other processes open an allocation of Alloc.
	// OpenIPC maps such an allocation of another process, and CloseIPC unmaps it.
	ExportIPC(address uintptr) (IPCHandle, Status)
	OpenIPC(h IPCHandle) (address uintptr, s Status)
	CloseIPC(address uintptr) Status

	// NewIPCEvent makes an event that other processes open by the handle of ExportIPCEvent.
	// OpenIPCEvent makes an event of such a handle.
	NewIPCEvent() (event uintptr, s Status)
	ExportIPCEvent(event uintptr) (IPCHandle, Status)
	OpenIPCEvent(h IPCHandle) (event uintptr, s Status)

	// RegisterGLBuffer registers a buffer of the context of OpenGL that is current, as it is
	// for all methods with graphics resources. It fails with NoGraphics if none is current,
	// BadValue or BadHandle if that has no such buffer, and BadDevice if it is another card's.
	RegisterGLBuffer(buffer uint32, access GLAccess) (resource uintptr, s Status)
	UnregisterGL(resource uintptr) Status

	// MapGL lets the device use the resource: work enqueued on the stream later comes after
	// what OpenGL was told before. UnmapGL is the reverse: what OpenGL is told later comes after
	// the work enqueued on the stream before.
	MapGL(resource, stream uintptr) Status
	UnmapGL(resource, stream uintptr) Status

	// MappedGL returns where a mapped buffer lies.
	MappedGL(resource uintptr) (address uintptr, size int64, s Status)
}

// ContextID names a context. It is not 0.
type ContextID uintptr

// Description is what a driver tells of a device.
type Description struct {
	Name         string
	UUID         core.UUID
	PCI          string // such as "0000:65:00.0"; "" where the driver does not tell
	TotalMemory  int64
	ComputeUnits int
	Integrated   bool // it shares the host's memory

	// Why a device lacks something; "" where it has it.
	NoManaged     string // managed memory that the host may use while any work of the device runs
	NoDescriptors string // memory that is exported and imported as an opaque descriptor
	NoIPC         string // memory and events that other processes open
	NoTimelines   string // imported timeline semaphores
}

// Pointer is what the driver knows of an address.
type Pointer struct {
	Type    MemoryType
	Managed bool
	Context ContextID // that the memory was allocated or registered in; 0 for memory of a pool and mapped memory
	Device  int32     // that the memory was allocated or registered for
	Host    uintptr   // the address for the host, 0 where it has none
	Start   uintptr   // of the allocation, or of the reserved addresses that it is mapped into
	Size    int64     // from Start on; 0 where the driver does not tell
}

// MemoryType is the type of the memory at an address, 0 for memory that is not the driver's.
type MemoryType uint8

// The types of memory.
const (
	HostMemory MemoryType = 1 + iota
	DeviceMemory
)

// PeerCopy is a copy from memory of one context to that of another one.
type PeerCopy struct {
	To, From ContextID
	Dst, Src uintptr
}

// Mapped is memory of the driver's virtual memory management, at addresses of its own.
type Mapped struct {
	Memory  uint64 // the driver's handle
	Address uintptr
	Size    int64
}

// External is memory that another API made, mapped as a whole: only that API knows how parts
// of it must be aligned.
type External struct {
	Memory  uintptr // the driver's handle
	Address uintptr
}

// IPCHandle names memory or an event for other processes.
type IPCHandle [64]byte
