package opencl

import "github.com/dlx-go/dlx/core"

// New returns the backend "opencl". It serves every device of every platform that
// the loader knows, counted in the loader's order. A device may be opened several
// times, each time with a cl_context, a pool and streams of its own. The library
// is opened by the first call of a method: a program starts without it, and Probe
// says why it is missing. DLX_OPENCL_LIBRARY names another one than the system's.
func New() core.Backend { return newBackend() }

// Handles are the objects of OpenCL behind a device. They stay the device's.
type Handles struct {
	Platform uintptr // cl_platform_id
	Device   uintptr // cl_device_id
	Context  uintptr // cl_context
}

// HandlesOf returns what is behind d, for who makes kernels and command queues of
// its context. It fails with ErrDevice for a device of another backend and with ErrClosed.
func HandlesOf(d core.Device) (Handles, error) { return handlesOf(d) }

// Wrap opens a device over a cl_context that another library made, so that both
// use each other's cl_mem, cl_command_queue and cl_event. It retains the context
// until the caller closes the device. deviceID is one of the context's; the
// result's ID is that of [core.Backend.Devices]. It fails with ErrDevice if no
// platform lists the device or the context has not got it, and with ErrInvalid if
// either is 0 or the driver says that it is none. Whether an address that is no
// handle is found out depends on the driver: do not pass any.
func Wrap(context, deviceID uintptr) (core.Device, error) { return wrapContext(context, deviceID) }

// MemOf returns the cl_mem that t stands on and where in it the first element
// lies, in bytes. The cl_mem stays the tensor's: retain it to keep it longer. It
// fails with ErrDevice if t does not lie on OpenCL, and with ErrClosed. For a tensor
// without memory it is 0.
func MemOf(t *core.Tensor) (mem uintptr, offset int64, err error) { return memOf(t) }

// SubBuffer returns a view of t's elements that stands on a cl_mem of its own, which
// begins with their first byte and ends with their last: for kernels that take no
// offset. The caller closes it. It keeps t's memory and shares its order, so that
// work on one waits for work on the other. It fails with ErrLayout if the first
// byte is no multiple of CL_DEVICE_MEM_BASE_ADDR_ALIGN in t's cl_mem or there are no
// elements, with ErrInvalid if that is a sub-buffer itself, of which OpenCL makes none, with
// ErrDevice if t belongs to no opened device of OpenCL, and with ErrClosed.
func SubBuffer(t *core.Tensor) (*core.Tensor, error) { return subBuffer(t) }

// EventOf makes an event of a cl_event of another library, which streams of d can
// wait for on the device. It retains the cl_event until it is passed or the event
// is collected. Whoever enqueued the command flushes its queue, else nobody may ever
// see it done (OpenCL 3.0 API, Flush and Finish). It fails with ErrInvalid for what
// is no cl_event of d's context, as far as the API can tell; see [Wrap].
func EventOf(d core.Device, event uintptr) (core.Event, error) { return eventOf(d, event) }
