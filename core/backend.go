package core

import "context"

// Backend is one API that reaches devices: "cpu", "cuda", "vulkan". It is safe
// for concurrent use.
type Backend interface {
	// Name is the backend's name, equal to [DeviceType.BackendName] of what it serves.
	Name() string
	// Probe says whether the API can be used here and, where not, why. It opens
	// no device and keeps nothing open.
	Probe(ctx context.Context) Probe
	// Devices lists what can be opened. A backend whose driver is missing returns
	// none and the reason as an error.
	Devices(ctx context.Context) ([]Properties, error)
	// Open opens a device. The caller owns it and closes it. It fails with
	// ErrDevice if there is no such device.
	Open(ctx context.Context, id DeviceID) (Device, error)
}

// Probe is what a backend found out about its API on this machine.
type Probe struct {
	Available bool      `json:"available"`
	Version   string    `json:"version,omitempty"` // of the API or the driver
	Reason    string    `json:"reason,omitempty"`  // why it is not available
	Features  []Feature `json:"features,omitempty"`
}

// Feature is one ability of an API or device that may be missing.
type Feature struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"` // why it is not available
	// Capability is what a device has with the feature, 0 if that is none of its capabilities.
	Capability Capabilities `json:"-"`
}

// Properties describe a device.
type Properties struct {
	ID          DeviceID `json:"id"`
	Name        string   `json:"name"`
	Driver      string   `json:"driver,omitempty"`      // name and version
	UUID        UUID     `json:"uuid,omitzero"`         // zero where the API has none
	DriverUUID  UUID     `json:"driver_uuid,omitzero"`  // memory handles fit only between equal pairs of both
	PCI         string   `json:"pci,omitempty"`         // "0000:65:00.0"
	TotalMemory int64    `json:"total_memory"`          // bytes; 0 where unknown
	FreeMemory  int64    `json:"free_memory,omitempty"` // bytes, when it was asked for; 0 where the API does not tell
	Alignment   int64    `json:"alignment"`             // bytes; of every allocation
	// ComputeUnits are the processors of a host, the multiprocessors of CUDA, the compute
	// units of OpenCL; 0 where the API does not tell.
	ComputeUnits int       `json:"compute_units,omitempty"`
	Queues       int       `json:"queues,omitempty"` // of the kind that dlx uses; 0 where the API does not tell
	Features     []Feature `json:"features,omitempty"`
	// Capabilities are what the conformance suite may hold the device to.
	Capabilities Capabilities `json:"capabilities"`
}

// AllocOptions say what memory is wanted. The zero value asks for the device's plain memory.
type AllocOptions struct {
	// Type asks for another memory type of the same backend, such as
	// DeviceCUDAHost for pinned memory. 0 is the device's own type.
	Type DeviceType
	// Export asks for memory that [MemoryExporter] can export as this kind of
	// handle. 0 means that it need not be exported.
	Export HandleType
	// HostVisible asks for memory that [HostViewer] can show to the host. Memory of
	// a device may be so without being asked for.
	HostVisible bool
	// Stream, if not nil, is where the memory is used first: a stream-ordered
	// pool may hand out memory whose former use is still running on it.
	Stream Stream
}

// Device is an opened device. It is safe for concurrent use. Closing it fails
// with ErrInvalid while memory or streams of it are open, and changes nothing then,
// except that hooks were called (see [CloseNotifier]). It may wait a moment for others
// to close what they have open; calls that open something wait as long then.
type Device interface {
	ID() DeviceID
	Properties() Properties
	// Alloc returns size bytes, aligned to Properties.Alignment and not cleared.
	// The caller owns them: it passes them on to [Wrap] or frees them by their
	// Owner. Size 0 is allowed. It fails with ErrOutOfMemory, ErrInvalid (a
	// negative size) or ErrNotSupported (an option). Most callers want [Empty].
	Alloc(ctx context.Context, size int64, opts AllocOptions) (Memory, error)
	// NewStream returns an ordered queue of work, which the caller closes.
	NewStream(ctx context.Context) (Stream, error)
	// Copy enqueues on s a copy of the elements of src into dst: both on this
	// device, or one of them in host memory. Types and shapes must be equal,
	// strides may be any. The work waits for the last write of src and for the
	// last write and all uses of dst, and becomes a use of src and the last write
	// of dst: both may be closed at once, their memory stays until the work is done.
	// With a nil stream the call returns when the copy is done.
	// See [CheckCopy] for the errors that come before any work.
	Copy(ctx context.Context, s Stream, dst, src *Tensor) error
	// Close releases the device. A second Close does nothing.
	Close() error
}

// Stream is an ordered queue of work on a device. It is safe for concurrent use.
type Stream interface {
	Device() Device
	// Record returns an event that is done when all work enqueued before is done.
	Record() (Event, error)
	// Wait makes work enqueued later wait for e without blocking the caller. It
	// fails with ErrNotSupported if this device cannot wait for e: the host must.
	// If e has failed already, it may return that error instead: nothing is to wait for.
	// Implementations must unwrap e by [UnwrapEvent] before they wait for it on the
	// device: e may be an event of theirs inside another one.
	Wait(e Event) error
	// Synchronize blocks until all work enqueued before is done and returns the
	// first error of that work since the last Synchronize, or ctx's error.
	Synchronize(ctx context.Context) error
	// Native is the API's own handle (a CUstream, a cl_command_queue), 0 where there is none.
	Native() uintptr
	// Close waits for the work and releases the stream. Another Close waits as well,
	// and returns nil.
	Close() error
}

// SettledWaiter is a Stream whose events report the errors of what it waited for: a Wait
// for an event that fails counts as failed work of the stream. Such a stream must also be
// able to wait where a failure does not matter.
type SettledWaiter interface {
	// WaitSettled is Wait for work that is to be overwritten: that e fails is no
	// failure of the stream.
	WaitSettled(e Event) error
}

// HostWorker is a Stream that can do work of the host in its turn, as queues of the host
// do. Semaphores of the host signal on such streams.
type HostWorker interface {
	// Enqueue adds work behind all that was enqueued before. The error of work is
	// reported by the next event recorded behind it.
	Enqueue(work func() error) error
}

// Event is a point in a stream's work. It is safe for concurrent use and needs no
// Close: what stands behind it is released when it is collected or passed.
// A nil Event has been passed.
type Event interface {
	// Done reports, without blocking, whether the point was passed; err is the
	// error of the work, if it failed.
	Done() (done bool, err error)
	// Wait blocks the caller until the point is passed or ctx ends, and returns
	// the error of the work or ctx's error.
	Wait(ctx context.Context) error
}

// EventWrapper is an Event around another one. It reports more errors than the one inside,
// and is done only when the work that it reports on is done. In the order of the device's
// work the two are one point, so that a Stream waits for the one inside.
type EventWrapper interface {
	Event
	Unwrap() Event
}

// UnwrapEvent returns what a Stream waits for on the device: the event inside an
// [EventWrapper], or e itself.
func UnwrapEvent(e Event) Event {
	if w, ok := e.(EventWrapper); ok {
		return w.Unwrap()
	}
	return e
}
