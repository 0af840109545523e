//go:build opencl

package opencl

// Handles are the objects of OpenCL behind a device. They stay the device's.
type Handles struct {
	Platform uintptr // cl_platform_id
	Device   uintptr // cl_device_id
	Context  uintptr // cl_context
}
