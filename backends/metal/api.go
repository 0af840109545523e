package metal

import "github.com/dlx-go/dlx/core"

// New returns the backend "metal". Its devices are those of MTLCopyAllDevices. A device may be opened several times; each
// opened device has its own pool and streams. The first call of a method opens the frameworks. A program starts
// without them, and Probe says why they are missing.
func New() core.Backend { return newBackend() }

// DeviceOf returns the id<MTLDevice> of d. It belongs to d. DeviceOf fails with core.ErrDevice for a device of another
// backend, and with core.ErrClosed for a closed one.
func DeviceOf(d core.Device) (uintptr, error) { return deviceOf(d) }

// BufferOf returns the id<MTLBuffer> of t, and the offset of the first element in it, in bytes. The buffer belongs to the
// tensor. Retain it to keep it longer, but not to use the memory longer: memory of a pool goes back to the pool when the
// tensor is closed and its work is done. Memory of the host goes back to its owner when nobody owns the buffer any more.
// For a tensor without memory it is 0. BufferOf fails with core.ErrInvalid if t is nil, with core.ErrDevice if t is not in
// Metal, and with core.ErrClosed if t is closed.
func BufferOf(t *core.Tensor) (buffer uintptr, offset int64, err error) { return bufferOf(t) }

// EventOf returns the id<MTLSharedEvent> that stands for e, an event of a stream of Metal, and the value that it has when
// e is done. Command buffers of other code wait by encodeWaitForEvent:value:, which the system ends with an error if
// work of the host before e takes long. The object belongs to the stream. EventOf fails with core.ErrDevice for another
// event, and with core.ErrClosed if the stream is closed.
func EventOf(e core.Event) (object uintptr, value uint64, err error) { return eventOf(e) }

// SharedEventOf returns the id<MTLSharedEvent> of a semaphore of Metal, which belongs to the semaphore. Other code may
// signal it, too. SharedEventOf fails with core.ErrDevice for a semaphore of another backend, and with core.ErrClosed for
// a closed one.
func SharedEventOf(s core.Semaphore) (uintptr, error) { return sharedEventOf(s) }

// ImportSharedEvent returns a semaphore of d over an id<MTLSharedEvent> of other code, and retains that until the semaphore
// is closed. If other code signals a value while the host replaces a signal of dlx that failed, the value may appear to
// fall. ImportSharedEvent fails with core.ErrInvalid if object is not a shared event, as far as the system can tell; with core.ErrDevice
// if d is a device of another backend; and with core.ErrClosed if d is closed.
func ImportSharedEvent(d core.Device, object uintptr) (core.Semaphore, error) {
	return importSharedEvent(d, object)
}
