package oneapi

import "github.com/dlx-go/dlx/core"

// New returns the backend "oneapi". Its devices are those of OpenCL that have cl_intel_unified_shared_memory, in the
// loader's order. A device may be opened several times. Each opened device has its own cl_context, pool and streams.
// The first call of a method opens the library: the system's libOpenCL, or the one that DLX_OPENCL_LIBRARY names. A
// program starts without it, and Probe says why it is missing.
func New() core.Backend { return newBackend() }

// Handles are the OpenCL objects of a device. They belong to the device.
type Handles struct {
	Platform uintptr // cl_platform_id
	Device   uintptr // cl_device_id
	Context  uintptr // cl_context
}

// HandlesOf returns the OpenCL objects of d, for programs that make kernels and command queues in its context. It
// fails with core.ErrDevice for a device of another backend, and with core.ErrClosed for a closed one.
func HandlesOf(d core.Device) (Handles, error) { return handlesOf(d) }

// Wrap opens a device over a cl_context of another library, such as that of a sycl::context. The device and the library
// can then use each other's allocations, cl_command_queue and cl_event. Wrap retains the context until the caller
// closes the device. deviceID is one of the context's devices; the ID of the result is the one that
// core.Backend.Devices lists.
//
// Wrap fails with core.ErrDevice if no platform lists the device with unified shared memory or if it is not in the
// context, and with core.ErrInvalid if either argument is 0 or the driver rejects it. Whether an address that is not a
// handle is detected depends on the driver, so pass valid handles only.
func Wrap(context, deviceID uintptr) (core.Device, error) { return wrapContext(context, deviceID) }

// Adopt makes every later Open of a device use a cl_context of another library, such as the default context of SYCL, as Wrap
// does: the devices of all registries of the process and the library can then use each other's allocations. Devices that
// are open keep their context. Adopt retains the context until another call for the same device; a context of 0 ends the
// adoption. Errors are those of Wrap, and an error changes nothing.
func Adopt(context, deviceID uintptr) error { return adopt(context, deviceID) }

// ImportEvent makes an event of a cl_event of another library. Streams of d can wait for it on the device. ImportEvent
// retains the cl_event until it is complete or the event is garbage-collected. The queue of the command must be flushed
// by the code that enqueued it; otherwise the event may never complete (OpenCL 3.0 API, Flush and Finish). ImportEvent
// fails with core.ErrInvalid if event is not a cl_event of d's context, as far as the API can tell; see [Wrap].
func ImportEvent(d core.Device, event uintptr) (core.Event, error) { return importEvent(d, event) }
