package cudalike

import (
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/core"
)

// Driver is the driver of an API like CUDA's. A backend implements it with the functions of the API's library.
type Driver interface {
	// Load opens the library and initialises it, once in the life of the process. err says why the library cannot
	// be opened; s is the result of the initialisation. No other method may be called before Load has succeeded.
	Load() (s Status, err error)

	// Text returns the name and the description of a code.
	Text(code int32) string

	// Version returns the newest version of the API that the driver implements, such as "12.4".
	Version() string

	// Devices returns the number of devices.
	Devices() (int, Status)

	// Describe describes a device.
	Describe(ordinal int32) (Description, Status)

	// CanAccessPeer reports whether a device can use memory of another one.
	CanAccessPeer(ordinal, peer int32) (bool, Status)

	// Granularity returns the number of bytes that the size of [Mapped] memory for a type of handles must be a multiple
	// of, or, if best is true, should be a multiple of for the best speed.
	Granularity(ordinal int32, t core.HandleType, best bool) (int64, Status)

	// Retain takes a reference to the primary context of a device. Release releases it.
	Retain(ordinal int32) (Context, Status)
	Release(ordinal int32) Status
}

// Context is a context of a device. Any goroutine may call its methods: a method makes the context current on the
// calling thread, and restores the previous one. No method invalidates the capture of a stream by other code.
//
// Streams, events, modules and functions are handles of the API. A method that takes a stream enqueues its work and
// returns, unless its comment says that it waits.
type Context interface {
	// ID returns the driver's name of the context.
	ID() ContextID

	// Alloc allocates memory of the device. AllocHost allocates host memory that is pinned for every context.
	// AllocManaged allocates memory that the driver moves between the host and the device when either uses it.
	Alloc(size int64) (uintptr, Status)
	AllocHost(size int64) (uintptr, Status)
	AllocManaged(size int64) (uintptr, Status)

	// Free frees memory of Alloc and AllocManaged. It waits for all work of the device. FreeHost frees memory of
	// AllocHost, which no work may be using.
	Free(address uintptr) Status
	FreeHost(address uintptr) Status

	// FreeMemory returns how many bytes of the device's memory are not allocated.
	FreeMemory() (int64, Status)

	// MapHost registers host memory and returns its address for the device. UnmapHost ends the registration. No
	// work may be using the memory then. readOnly says that the host cannot write the memory; it is true only if
	// [Description].NoReadOnlyHost is "". The device must then not write it either.
	MapHost(p uintptr, size int64, readOnly bool) (address uintptr, s Status)
	UnmapHost(p uintptr) Status

	// Pointer describes the memory at an address. Type is 0 if the memory is not the driver's.
	Pointer(p uintptr) (Pointer, Status)

	// IsHostAllocation reports whether host memory was allocated as pinned, by any library. It is false for memory
	// that was registered.
	IsHostAllocation(p uintptr) bool

	// Mapping returns the mapping that an address lies in. Addresses can be reserved without a mapping, or have
	// several: for an address without one, Mapping fails with NotFound or BadValue.
	Mapping(p uintptr) (start uintptr, size int64, s Status)

	// HasAccess reports whether work of a device may use mapped memory. It is true if the driver does not say.
	HasAccess(ordinal int32, p uintptr) bool

	// NewStream makes a stream. It and the legacy stream do not wait for each other. DestroyStream destroys a
	// stream without work.
	NewStream() (stream uintptr, s Status)
	DestroyStream(stream uintptr) Status

	// StreamContext returns the context of a stream, which any library may have made.
	StreamContext(stream uintptr) (ContextID, Status)

	// StreamID returns a number that is not 0 and that no other stream ever has. For the number that stands for the
	// stream of a thread, it returns the ID of the calling thread's stream.
	StreamID(stream uintptr) (uint64, Status)

	// Synchronize waits until the work of a stream is done. If the stream is being captured into a graph, it fails
	// with Captured at once.
	Synchronize(stream uintptr) Status

	// CheckCapture fails with Captured if a stream is being captured into a graph.
	CheckCapture(stream uintptr) Status

	// NewEvent makes an event, which records the time if timed is true. DestroyEvent destroys it. Streams may still
	// be waiting for it, and go on waiting.
	NewEvent(timed bool) (event uintptr, s Status)
	DestroyEvent(event uintptr) Status

	// RecordEvent makes an event stand for all work that was enqueued on a stream before. If the stream is being
	// captured into a graph, RecordEvent and WaitEvent fail with Captured and do nothing.
	RecordEvent(event, stream uintptr) Status

	// WaitEvent makes later work of a stream wait for an event, which may belong to another context.
	WaitEvent(stream, event uintptr) Status

	// Query fails with NotReady if an event is not done.
	Query(event uintptr) Status

	// Elapsed returns the time between two events that record the time. It fails with NotReady if one of them is not
	// done.
	Elapsed(from, to uintptr) (time.Duration, Status)

	// Copy copies n bytes. Each address is of the device's memory, of managed memory or of host memory. The driver
	// may read or write host memory that is not pinned before Copy returns. If event is not 0, Copy then records it
	// on the stream, and reports whether it could; if not, the copy is enqueued nevertheless. If the stream is being
	// captured into a graph, Copy fails with Captured and does nothing.
	Copy(dst, src uintptr, n int64, stream, event uintptr) (recorded bool, s Status)

	// CopyBatch is like Copy, for one piece or more. The pieces may be copied in any order: none writes what another
	// one reads or writes. No address is of host memory that is not pinned. If CopyBatch fails, some pieces may have
	// been enqueued.
	CopyBatch(p Pieces, stream, event uintptr) (recorded bool, s Status)

	// CopyBox copies a box, whose pitches are less than 2 GiB.
	CopyBox(dst, src uintptr, b copyplan.Box, stream uintptr) Status

	// LoadModule loads kernels of [Facts]. It fails with WrongImage if the device does not run such code.
	// UnloadModule unloads them; no work may be using them. Function returns a function, which is valid until its
	// module is unloaded. LoadModule and Function may wait for all work of the context. Afterwards nothing of the
	// function is left to be loaded, so that Launch never waits for that.
	LoadModule(image string) (module uintptr, s Status)
	UnloadModule(module uintptr) Status
	Function(module uintptr, name string) (function uintptr, s Status)

	// Launch launches a kernel with the arguments dst, src and constants, which are as long as the kernel says. They are copied
	// before it returns.
	Launch(function uintptr, grid [3]uint32, block uint32, dst, src uintptr, constants unsafe.Pointer, stream uintptr) Status

	// LaunchHostFunc enqueues f, which the driver calls on a thread of its own. f must not call the API. If the
	// context fails before, f is never called. RunsHostFunc reports whether such a function is running.
	// DropHostFuncs releases the functions of a context that has failed. [HostFuncs] helps to implement these.
	LaunchHostFunc(stream uintptr, f func()) Status
	RunsHostFunc() bool
	DropHostFuncs()

	// EnablePeer lets work of the context use memory of another one. It also succeeds if the driver cannot do that:
	// CopyPeer then copies through the host.
	EnablePeer(peer ContextID) Status

	// CopyPeer copies n bytes, and CopyPeerBox copies a box, on a stream of the context.
	CopyPeer(p PeerCopy, n int64, stream uintptr) Status
	CopyPeerBox(p PeerCopy, b copyplan.Box, stream uintptr) Status

	// NewMapped allocates memory of a device, which can be exported as t: core.HandleOpaqueFD or core.HandleDMABuf. It
	// maps the memory for that device alone. CloseMapped unmaps it; no work may be using it. The memory is freed when
	// no descriptor and no other mapping of it is left.
	NewMapped(size int64, t core.HandleType, ordinal int32) (Mapped, Status)
	CloseMapped(m Mapped) Status

	// OpenMapped gives another device access to mapped memory: EnablePeer has no effect on such memory. It may wait
	// for all work.
	OpenMapped(m Mapped, ordinal int32) Status

	// ExportMapped returns a new descriptor, which the caller owns. It fails with BadValue or NotSupported if the memory was
	// not allocated for handles of m.Type. ImportMapped maps the memory of an opaque
	// descriptor, as NewMapped does. The caller keeps the descriptor. The result cannot be exported.
	ExportMapped(m Mapped) (fd int, s Status)
	ImportMapped(fd int, size int64, ordinal int32) (Mapped, Status)

	// RetainMapped takes a reference to the memory that any library has mapped to an address, by virtual memory
	// management, in order to export it as t. Address and Size of the result are those of the mapping, whose first byte
	// is that of the memory. It fails with BadValue if the memory at the address is not mapped, and with NotSupported if
	// the driver does not count references. ReleaseMapped gives the reference back.
	RetainMapped(p uintptr, t core.HandleType) (Mapped, Status)
	ReleaseMapped(m Mapped) Status

	// ImportExternal opens memory of size bytes that another API exported as an opaque descriptor. It takes the
	// descriptor, also if it fails. dedicated says that the memory belongs to one resource of the other API.
	// CloseExternal closes the memory; no work may be using it.
	ImportExternal(fd int, size int64, dedicated bool) (External, Status)
	CloseExternal(x External) Status

	// ImportTimeline opens a timeline semaphore that another API exported as an opaque descriptor. It takes the
	// descriptor, also if it fails. CloseTimeline closes the semaphore; no work may be using it.
	ImportTimeline(fd int) (timeline uintptr, s Status)
	CloseTimeline(timeline uintptr) Status

	// SignalTimeline sets the value when the work that was enqueued on the stream before is done. WaitTimeline makes
	// later work of the stream wait until the value is reached.
	SignalTimeline(timeline uintptr, value uint64, stream uintptr) Status
	WaitTimeline(timeline uintptr, value uint64, stream uintptr) Status

	// ExportIPC returns the handle by which other processes can open an allocation of Alloc. OpenIPC maps an
	// allocation of another process. CloseIPC unmaps it.
	ExportIPC(address uintptr) (IPCHandle, Status)
	OpenIPC(h IPCHandle) (address uintptr, s Status)
	CloseIPC(address uintptr) Status

	// NewIPCEvent makes an event that other processes can open. ExportIPCEvent returns its handle. OpenIPCEvent opens
	// an event of another process.
	NewIPCEvent() (event uintptr, s Status)
	ExportIPCEvent(event uintptr) (IPCHandle, Status)
	OpenIPCEvent(h IPCHandle) (event uintptr, s Status)

	// RegisterGLBuffer registers a buffer of OpenGL. For it and the four methods that follow, the buffer's context of
	// OpenGL must be current on the calling thread. They fail with NoGraphics if none is current, with BadValue or
	// BadHandle if the context has no such buffer, and with BadDevice if it belongs to another card.
	RegisterGLBuffer(buffer uint32, access GLAccess) (resource uintptr, s Status)
	UnregisterGL(resource uintptr) Status

	// MapGL lets the device use the buffer. Later work of the stream waits for earlier commands of OpenGL. UnmapGL
	// is the reverse: later commands of OpenGL wait for earlier work of the stream.
	MapGL(resource, stream uintptr) Status
	UnmapGL(resource, stream uintptr) Status

	// MappedGL returns the address and the size of a mapped buffer.
	MappedGL(resource uintptr) (address uintptr, size int64, s Status)
}

// ContextID names a context. It is not 0.
type ContextID uintptr

// Description is what a driver knows of a device.
type Description struct {
	Name         string
	UUID         core.UUID
	PCI          string // such as "0000:65:00.0"; "" if the driver does not know it
	TotalMemory  int64
	ComputeUnits int
	Major, Minor int    // the compute capability
	Arch         string // the architecture that code is compiled for, such as "gfx90a:sramecc+:xnack-"; "" where Major and Minor say it
	Integrated   bool   // the device shares the host's memory

	// Why the device lacks a feature; "" if it has it.
	NoManaged     string // managed memory that the host may use while the device works
	NoDescriptors string // export of memory as opaque descriptors, and import of those that this API exported
	NoExternal    string // import of opaque descriptors that another API exported
	NoDMABufs     string // export of memory as dma-bufs
	NoIPC         string // memory that other processes can open
	NoIPCEvents   string // events that other processes can open
	NoTimelines   string // import of timeline semaphores
	// MapHost of memory that the host cannot write
	NoReadOnlyHost string
}

// Pointer is what the driver knows of the memory at an address.
type Pointer struct {
	Type    MemoryType
	Managed bool
	Context ContextID // in which the memory was allocated or registered; 0 for memory of a pool and mapped memory
	Device  int32     // for which the memory was allocated or registered
	Pool    bool      // the memory belongs to a pool of the driver
	Host    uintptr   // the address for the host; 0 if there is none
	Start   uintptr   // of the allocation, or of the reserved addresses that it is mapped to
	Size    int64     // of the allocation or the reserved addresses; 0 if the driver does not know it
}

// MemoryType is the type of the memory at an address. It is 0 for memory that is not the driver's.
type MemoryType uint8

// The types of memory.
const (
	HostMemory MemoryType = 1 + iota
	DeviceMemory
)

// PeerCopy is a copy from memory of one context to memory of another one.
type PeerCopy struct {
	To, From ContextID
	Dst, Src uintptr
}

// Pieces are the pieces of several copies: from Src[i] to Dst[i], Size[i] bytes.
type Pieces struct{ Dst, Src, Size []uintptr }

// Add adds a piece.
func (p *Pieces) Add(dst, src uintptr, n int64) {
	p.Dst, p.Src, p.Size = append(p.Dst, dst), append(p.Src, src), append(p.Size, uintptr(n))
}

// Mapped is memory of the driver's virtual memory management, mapped to addresses of its own. It can be exported as
// a descriptor.
type Mapped struct {
	Memory  uint64 // the driver's handle
	Address uintptr
	Size    int64
	Type    core.HandleType // as which it can be exported; 0 if it cannot
}

// External is memory of another API. It is mapped as a whole, since only that API knows how parts of it must be
// aligned.
type External struct {
	Memory  uintptr // the driver's handle
	Address uintptr
}

// IPCHandle is the name of memory or an event for other processes.
type IPCHandle [64]byte
