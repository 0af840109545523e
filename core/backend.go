package core

import "context"

// Backend gives access to the devices of one API, such as CUDA or Vulkan. It is safe for
// concurrent use.
type Backend interface {
	// Name returns the backend's name, such as "cuda". It equals
	// [DeviceType.BackendName] of the device types that the backend serves.
	Name() string
	// Probe reports whether the API can be used on this machine and, if not, why. It
	// opens no device and keeps nothing open.
	Probe(ctx context.Context) Probe
	// Devices lists the devices that can be opened. If the driver is missing, it
	// returns no devices and an error that gives the reason.
	Devices(ctx context.Context) ([]Properties, error)
	// Open opens a device. The caller owns it and closes it. Open returns ErrDevice
	// if there is no such device.
	Open(ctx context.Context, id DeviceID) (Device, error)
}

// Probe is the result of [Backend.Probe].
type Probe struct {
	Available bool      `json:"available"`          // whether the API can be used on this machine
	Version   string    `json:"version,omitempty"`  // of the API or the driver
	Reason    string    `json:"reason,omitempty"`   // why it is not available
	Features  []Feature `json:"features,omitempty"` // what the API may lack, whether or not it is available
}

// Feature is something that an API or a device may lack, and the reason if it is missing. Several features can stand for
// one capability, such as one for each handle type.
type Feature struct {
	Name      string `json:"name"` // such as "export_opaque_fd"
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"` // why it is not available
	// Capability is the capability that the feature gives the device; 0 if there is none.
	Capability Capabilities `json:"-"`
}

// Properties describes a device.
type Properties struct {
	ID          DeviceID `json:"id"`
	Name        string   `json:"name"`
	Driver      string   `json:"driver,omitempty"`      // name and version
	UUID        UUID     `json:"uuid,omitzero"`         // zero if the API has none
	DriverUUID  UUID     `json:"driver_uuid,omitzero"`  // zero if the API has none; a device imports an opaque handle only if UUID and DriverUUID are those of the exporter
	PCI         string   `json:"pci,omitempty"`         // "0000:65:00.0"
	TotalMemory int64    `json:"total_memory"`          // bytes; 0 if not known
	FreeMemory  int64    `json:"free_memory,omitempty"` // bytes, at the time of the call; 0 if not known
	Alignment   int64    `json:"alignment"`             // of every allocation, in bytes
	// ComputeUnits is the number of processors of a host, of multiprocessors of a CUDA
	// device, or of compute units of an OpenCL device; 0 if not known.
	ComputeUnits int       `json:"compute_units,omitempty"`
	Queues       int       `json:"queues,omitempty"`   // number of queues of the kind that dlx uses; 0 if not known
	Features     []Feature `json:"features,omitempty"` // what the device may lack, whether or not it is available
	// Capabilities lists what the device can do. The conformance suite tests that it can.
	Capabilities Capabilities `json:"capabilities"`
}

// AllocOptions selects the kind of memory that [Device.Alloc] returns. The zero value
// selects the device's plain memory.
type AllocOptions struct {
	// Type selects another memory type of the same backend, such as
	// DeviceCUDAHost for pinned memory. 0 selects the device's own type.
	Type DeviceType
	// Export asks for memory that [MemoryExporter] can export as a handle of this
	// type. 0 means that the memory will not be exported.
	Export HandleType
	// HostVisible asks for memory that [HostViewer] can make accessible to the host.
	// A device may return such memory even if HostVisible is false.
	HostVisible bool
	// Stream, if not nil, is the stream that uses the memory first. A device with a
	// stream-ordered pool, as CUDA and ROCm have one, may then return memory that earlier
	// work on this stream still uses, and returns ErrDevice for a stream of another device.
	// Other devices ignore Stream. They return memory that no work uses any more.
	Stream Stream
}

// Device is an opened device. It is safe for concurrent use.
type Device interface {
	// ID returns the name of the device, such as cuda:0.
	ID() DeviceID
	// Properties describes the device. The result is a copy.
	Properties() Properties
	// Alloc returns size bytes, aligned to Properties.Alignment and not cleared. Size 0
	// is allowed. The caller owns the memory, and passes it to [Wrap] or frees it with
	// [Memory.Free]. Alloc returns ErrOutOfMemory, ErrInvalid if size is negative, or
	// ErrNotSupported if the device does not support an option. Most callers use
	// [Empty] instead.
	Alloc(ctx context.Context, size int64, opts AllocOptions) (Memory, error)
	// NewStream returns an ordered queue of work. The caller closes it.
	NewStream(ctx context.Context) (Stream, error)
	// Copy enqueues on s a copy of the elements of src into dst. Both tensors lie on
	// this device, or one of them lies in host memory. Their types and shapes must be
	// equal; their strides may be any.
	//
	// The copy waits for the last write to src and for all work on dst. It is recorded
	// as a read of src and as the last write to dst. The caller may close both tensors
	// as soon as Copy returns; their memory stays valid until the copy is done. If s is
	// nil, Copy returns when the copy is done. CheckCopy of package backendkit lists the errors that are
	// found before the copy is enqueued.
	Copy(ctx context.Context, s Stream, dst, src *Tensor) error
	// Close closes the device. If the device is a CloseNotifier of package backendkit, Close first calls
	// its hooks. While memory or streams of the device are open, or a call such as Copy uses the device, it
	// returns ErrInvalid and leaves the device open. It may wait a short time for other goroutines to close what
	// they have open; calls that open something wait during that time. Closing a closed device does nothing.
	Close() error
}

// Stream is an ordered queue of work on a device. It is safe for concurrent use.
type Stream interface {
	// Device returns the device that the stream belongs to. It is nil for a stream of the
	// host that belongs to no device.
	Device() Device
	// Record returns an event that is done when all work enqueued before is done.
	Record() (Event, error)
	// Wait makes work enqueued later wait for e. It does not block the caller. It
	// returns ErrNotSupported if this device cannot wait for e; the caller then waits
	// for e on the host. If e has already failed, Wait may return its error instead,
	// because there is nothing left to wait for. Implementations must call
	// UnwrapEvent of package backendkit before they wait for e on the device, because e may wrap one of
	// their own events.
	Wait(e Event) error
	// Synchronize blocks until all work enqueued before is done. It returns the first
	// error of the work since the last Synchronize, or ctx's error if ctx ends first.
	Synchronize(ctx context.Context) error
	// Native returns the API's own handle, such as a CUstream or a cl_command_queue; 0
	// if there is none. The handle belongs to the stream.
	Native() uintptr
	// Close waits for the work and closes the stream. It returns the first error of
	// the work that no Synchronize returned. A second Close also waits, and returns
	// nil.
	Close() error
}

// Event is a point in the work of a stream. The event is done when all work before that
// point is done. A nil Event stands for work that is done. An Event is safe for concurrent
// use and is not closed: its resources are released when it is done or garbage collected.
type Event interface {
	// Done reports, without blocking, whether the event is done. If the work failed,
	// err is its error.
	Done() (done bool, err error)
	// Wait blocks the caller until the event is done or ctx ends. It returns the error
	// of the work, or ctx's error.
	Wait(ctx context.Context) error
}
