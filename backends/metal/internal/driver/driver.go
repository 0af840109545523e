// Package driver is what package engine needs of Apple's Metal: one method of [Driver] for each method of Metal that it
// uses, with the rules that Metal's documentation states for it. A binding implements it on a Mac. Package fake
// implements it on every platform, keeps these rules, and reports code that breaks them.
//
// Sources: "Apple" is developer.apple.com/documentation/metal, with the page; "ARC" is section 3 of
// clang.llvm.org/docs/AutomaticReferenceCounting.html, which has the rules of names.
package driver

import "time"

// ID is an Objective-C object, such as an id<MTLBuffer>. 0 is nil.
//
// A method whose name begins with New or Copy returns an object that the caller owns, and releases by
// Driver.Release. All other methods return an object that the caller must retain to keep it after the end of
// [Driver.Pool], or borrow it from an object that is alive (ARC, "Retained return values").
type ID uintptr

// Driver calls Metal. Its methods can be called from any goroutine at the same time, except that the command buffer and
// the encoders of one command buffer are used by one goroutine at a time (Apple, "MTLCommandBuffer").
//
// The methods check nothing. Whoever calls them keeps the rules that their comments give: Metal ends the process if they
// are broken, or works on other memory.
type Driver interface {
	// Pool calls f on a thread with an autorelease pool of its own, to which f stays bound
	// (objc_autoreleasePoolPush). Objects that the methods return without ownership live until f returns at least.
	Pool(f func())
	// Retain adds an owner to an object, and Release takes one away. An object without owners is deallocated.
	Retain(ID)
	Release(ID)
	// Conforms reports whether an object implements a protocol. It may crash for an address that is no object.
	Conforms(object ID, p Protocol) bool

	// CopyDevices is MTLCopyAllDevices, or else MTLCreateSystemDefaultDevice. The caller owns every device of the list. An id<MTLDevice> stands for one GPU
	// in this process, whoever asks for it.
	CopyDevices() []ID
	// Describe reads the properties of a device.
	Describe(device ID) DeviceInfo
	// AllocatedSize is currentAllocatedSize: bytes that this process has allocated on the device.
	AllocatedSize(device ID) uint64

	// NewBuffer is newBufferWithLength:options:. It returns 0 if there is no memory, and for a length of 0 or above
	// DeviceInfo.MaxBufferLength (Apple, "newBufferWithLength:options:": nil when it fails; the lengths are those
	// that Metal's validation layer accepts). New memory has any contents for dlx, though Metal clears it.
	NewBuffer(device ID, length uint64, options Options) ID
	// NewBufferNoCopy is newBufferWithBytesNoCopy:length:options:deallocator:. address and length are multiples of the
	// page size (Apple, "newBufferWithBytesNoCopy:length:options:deallocator:"), and options has StorageShared. The
	// memory stays the caller's, who keeps it until Metal calls deallocated: once, on any thread, when the buffer has
	// no owner any more. Other libraries and command buffers own it, too. deallocated must not wait. NewBufferNoCopy
	// returns 0 if Metal does not take the memory; then deallocated is never called.
	NewBufferNoCopy(device ID, address uintptr, length uint64, options Options, deallocated func()) ID
	// Buffer reads the properties of a buffer.
	Buffer(buffer ID) BufferInfo

	// NewCommandQueue is newCommandQueueWithMaxCommandBufferCount:. It returns 0 if it fails.
	NewCommandQueue(device ID, maxCommandBuffers int) ID
	// QueueDevice is the device of a queue, borrowed from it.
	QueueDevice(queue ID) ID

	// CommandBuffer is commandBuffer: a command buffer that retains the buffers, events and pipelines that are
	// encoded in it until it is completed. The caller owns nothing. It returns 0 if it fails, and blocks while
	// the queue has as many uncompleted command buffers as it was made for (Apple,
	// "newCommandQueueWithMaxCommandBufferCount:": 64 for a queue of newCommandQueue).
	CommandBuffer(queue ID) ID
	// EncodeWait is encodeWaitForEvent:value:, and EncodeSignal is encodeSignalEvent:value:. They are called while
	// the command buffer has no open encoder (Apple, "encodeWaitForEvent:value:", "encodeSignalEvent:value:"). What
	// is encoded later in this command buffer waits until the event has at least the value; what was encoded before
	// in it is done before the event gets the value. A GPU ends command buffers that wait too long, with ErrTimeout:
	// encode waits only for values whose signal was committed.
	EncodeWait(commands, event ID, value uint64)
	EncodeSignal(commands, event ID, value uint64)
	// BlitEncoder is blitCommandEncoder, and ComputeEncoder is computeCommandEncoder. A command buffer has at
	// most one open encoder (Apple, "MTLCommandBuffer"), and the caller owns nothing. They return 0 if they fail.
	BlitEncoder(commands ID) ID
	ComputeEncoder(commands ID) ID
	// EndEncoding closes an encoder. It is called for every encoder before its command buffer is committed or
	// released (Apple, "endEncoding").
	EndEncoding(encoder ID)
	// CopyBuffer is copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size: of a blit encoder. On macOS both offsets
	// and the size are multiples of 4 (Apple, on that method). Both ranges lie in their buffers, and do not overlap
	// (Apple, "Metal Programming Guide", "Blit command encoder").
	CopyBuffer(blit ID, dst ID, dstOffset uint64, src ID, srcOffset, size uint64)
	// SetPipeline is setComputePipelineState:.
	SetPipeline(compute, pipeline ID)
	// SetBuffer is setBuffer:offset:atIndex:. The offset is below the length of the buffer, and a multiple of the
	// alignment of the type that the function reads there (Apple, "setBuffer:offset:atIndex:").
	SetBuffer(compute, buffer ID, offset uint64, index int)
	// SetBytes is setBytes:length:atIndex:, which copies the bytes: at most 4096 (Apple, "setBytes:length:atIndex:").
	SetBytes(compute ID, data []byte, index int)
	// Dispatch is dispatchThreadgroups:threadsPerThreadgroup:. No number is 0, and a group has at most
	// PipelineInfo.MaxThreads threads (Apple, "maxTotalThreadsPerThreadgroup").
	Dispatch(compute ID, groups, threads [3]uint32)
	// Commit adds a handler (addCompletedHandler:) and commits the command buffer. A command buffer is committed once,
	// by the goroutine that encoded it, and nothing is encoded in it later (Apple, "commit"). done is called once, on
	// a thread of Metal or the driver, when the command buffer is completed: its memory can be read and written
	// then. err is nil, or why the GPU did not carry out all of it; its signals may be missing then. done may call
	// the driver, but must not wait for the GPU, nor for a lock that somebody holds who waits for it. Commit itself does
	// not call it. Command buffers of a queue start in the order of Commit, and may overlap and be completed in another
	// order.
	Commit(commands ID, done func(err *Error))

	// NewSharedEvent is newSharedEvent, of value 0. It returns 0 if it fails.
	NewSharedEvent(device ID) ID
	// Value is signaledValue, and SetValue sets it at once. A value must not become smaller.
	Value(event ID) uint64
	SetValue(event ID, value uint64)
	// WaitValue waits until the event has at least the value, or for the time: waitUntilSignaledValue:timeoutMS: from
	// macOS 12 on, else by asking for the value again and again. It reports whether the value was reached.
	WaitValue(event ID, value uint64, atMost time.Duration) bool

	// NewLibrary is newLibraryWithSource:options:error: with nil options, so of the newest MSL
	// that the system has. On failure it returns 0 and the messages of the compiler.
	NewLibrary(device ID, source string) (ID, *Error)
	// NewFunction is newFunctionWithName:, which returns 0 if the library has no such function.
	NewFunction(library ID, name string) ID
	// NewPipeline is newComputePipelineStateWithFunction:error:.
	NewPipeline(device, function ID) (ID, PipelineInfo, *Error)
}

// Protocol is a protocol of Metal.
type Protocol string

// The protocols of objects that other libraries pass to dlx.
const (
	ProtocolBuffer      Protocol = "MTLBuffer"
	ProtocolQueue       Protocol = "MTLCommandQueue"
	ProtocolSharedEvent Protocol = "MTLSharedEvent"
)

// Options are MTLResourceOptions: those of storage modes (MTLResourceStorageModeShared and so on) and of hazard
// tracking. The cache mode is the default one.
type Options uint64

// The options, with the numbers of MTLResource.h: the mode is shifted by MTLResourceStorageModeShift, 4.
const (
	StorageShared  Options = 0 << 4
	StorageManaged Options = 1 << 4 // read only, of buffers of other libraries: see package engine
	StoragePrivate Options = 2 << 4
)

// DeviceInfo describes a device.
type DeviceInfo struct {
	Name            string    // name
	RegistryID      uint64    // registryID: the same in all processes until the machine restarts
	Unified         bool      // hasUnifiedMemory
	WorkingSet      uint64    // recommendedMaxWorkingSetSize, bytes
	MaxBufferLength uint64    // maxBufferLength, bytes
	MaxThreads      [3]uint32 // maxThreadsPerThreadgroup
	System          string    // such as "macOS 14.5": Metal has no version of its own
	PageSize        int64     // of the host: 16384 on Apple silicon, 4096 on Intel
}

// BufferInfo describes a buffer.
type BufferInfo struct {
	Device   ID      // borrowed from the buffer
	Length   uint64  // length, bytes
	Storage  Options // storageMode << 4
	Contents uintptr // contents; 0 for a private buffer, which the host cannot reach
}

// PipelineInfo describes a compute pipeline.
type PipelineInfo struct {
	MaxThreads uint32 // maxTotalThreadsPerThreadgroup
}

// Error is an NSError.
type Error struct {
	Domain string // such as [CommandBufferDomain]
	Code   int
	Text   string // localizedDescription
}

// CommandBufferDomain is the domain of errors of command buffers, MTLCommandBufferErrorDomain.
const CommandBufferDomain = "MTLCommandBufferErrorDomain"

// The codes of MTLCommandBufferError (MTLCommandBuffer.h).
const (
	ErrInternal        = 1
	ErrTimeout         = 2
	ErrPageFault       = 3
	ErrAccessRevoked   = 4 // MTLCommandBufferErrorBlacklisted before macOS 13
	ErrNotPermitted    = 7
	ErrOutOfMemory     = 8
	ErrInvalidResource = 9
	ErrMemoryless      = 10
	ErrDeviceRemoved   = 11
	ErrStackOverflow   = 12
)
