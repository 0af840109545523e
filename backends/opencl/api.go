package opencl

import "github.com/dlx-go/dlx/core"

// New returns the backend "opencl". Its devices are all devices of all platforms of the loader, in the
// loader's order. A device may be opened several times. Each opened device has its own cl_context, pool and
// streams. The first call of a method opens the library: the system's libOpenCL, or the one that
// DLX_OPENCL_LIBRARY names. A program starts without it, and Probe says why it is missing.
func New() core.Backend { return newBackend() }

// Handles are the OpenCL objects of a device. They belong to the device.
type Handles struct {
	Platform uintptr // cl_platform_id
	Device   uintptr // cl_device_id
	Context  uintptr // cl_context
}

// HandlesOf returns the OpenCL objects of d, for programs that make kernels and command queues in its
// context. It fails with core.ErrDevice for a device of another backend, and with core.ErrClosed for a closed
// one.
func HandlesOf(d core.Device) (Handles, error) { return handlesOf(d) }

// Wrap opens a device over a cl_context of another library. The device and the library can then use each
// other's cl_mem, cl_command_queue and cl_event. Wrap retains the context until the caller closes the device.
// deviceID is one of the context's devices; the ID of the result is the one that core.Backend.Devices lists.
//
// Wrap fails with core.ErrDevice if no platform lists the device or if it is not in the context, and with
// core.ErrInvalid if either argument is 0 or the driver rejects it. Whether an address that is not a handle
// is detected depends on the driver, so pass valid handles only.
func Wrap(context, deviceID uintptr) (core.Device, error) { return wrapContext(context, deviceID) }

// MemOf returns the cl_mem of t, and the offset of the first element in it, in bytes. The cl_mem belongs to
// the tensor: retain it to keep it longer. For a tensor without memory it is 0. MemOf fails with
// core.ErrDevice if t is not in OpenCL, and with core.ErrClosed if t is closed.
func MemOf(t *core.Tensor) (mem uintptr, offset int64, err error) { return memOf(t) }

// SubBuffer returns a view of t's elements on a cl_mem of its own, for kernels that take no offset. That
// cl_mem begins with the first byte of the elements and ends with the last. The caller closes the view. It
// keeps t's memory alive and shares its order: work on one waits for work on the other.
//
// SubBuffer fails with core.ErrLayout if there are no elements, or if the offset of the first byte in t's
// cl_mem is not a multiple of CL_DEVICE_MEM_BASE_ADDR_ALIGN; with core.ErrInvalid if t's cl_mem is a
// sub-buffer itself, of which OpenCL makes no sub-buffers; with core.ErrDevice if t does not belong to an
// opened OpenCL device; and with core.ErrClosed if t is closed.
func SubBuffer(t *core.Tensor) (*core.Tensor, error) { return subBuffer(t) }

// ImportEvent makes an event of a cl_event of another library. Streams of d can wait for it on the device.
// ImportEvent retains the cl_event until it is complete or the event is garbage-collected. The queue of the
// command must be flushed by the code that enqueued it; otherwise the event may never complete (OpenCL 3.0
// API, Flush and Finish). ImportEvent fails with core.ErrInvalid if event is not a cl_event of d's context, as
// far as the API can tell; see [Wrap].
func ImportEvent(d core.Device, event uintptr) (core.Event, error) { return importEvent(d, event) }
