package arrow

import "github.com/dlx-go/dlx/core"

// ExportOptions are the options of ExportDevice. The zero value is right for tensors of the host.
type ExportOptions struct {
	// Stream orders the consumer's work after the last write to the tensor: if it is a NativeRecorder, the struct gets
	// an event of it. Otherwise, or if Stream is nil or of another API than the memory, ExportDevice waits for that write
	// on the host. The caller keeps the stream.
	Stream core.Stream
	// Names are the names of the axes after the first one, or nil. They are used for tensors with several axes.
	Names []string
}

// ImportOptions are the options of ImportDevice. The zero value is right for memory of the host.
type ImportOptions struct {
	// Device is the opened device that the memory belongs to. Without it, or a Stream, no device can copy the tensor.
	Device core.Device
	// Stream waits for the event of the struct, if it has one: it must be a NativeWaiter of the device. The caller keeps
	// the stream.
	Stream core.Stream
}

// NativeRecorder is a stream that records events for other libraries. Streams of the backends cuda and rocm are.
type NativeRecorder interface {
	core.Stream
	// RecordNative returns an event of the API, such as a CUevent, that is done when all work enqueued before is done.
	// The caller calls release before the device is closed: it destroys the event. Calling it again does nothing.
	RecordNative() (event uintptr, release func(), err error)
}

// NativeWaiter is a stream that waits for events of other libraries. Streams of the backends cuda and rocm are.
type NativeWaiter interface {
	core.Stream
	// WaitNative makes work that is enqueued later wait for an event of the API, such as a CUevent. It does not take
	// ownership of the event, which may be destroyed afterwards.
	WaitNative(event uintptr) error
}
