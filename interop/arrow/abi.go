//go:build cgo

package arrow

import "github.com/dlx-go/dlx/core"

// cArray is struct ArrowArray.
type cArray struct {
	length, nullCount, offset, buffersLen, childrenLen int64
	buffers                                            uintptr // const void **
	children                                           uintptr // struct ArrowArray **
	dictionary                                         uintptr
	release                                            uintptr // NULL: the array is released
	private                                            uintptr
}

// cDeviceArray is struct ArrowDeviceArray.
type cDeviceArray struct {
	array      cArray
	deviceID   int64
	deviceType int32
	_          int32
	syncEvent  uintptr // a pointer to the API's event, or NULL
	reserved   [3]int64
}

// hasAddresses reports whether Arrow defines the device type, and its memory has addresses. The numbers of both
// interfaces are the same.
func hasAddresses(t core.DeviceType) bool {
	switch t {
	case core.DeviceCPU, core.DeviceCUDA, core.DeviceCUDAHost, core.DeviceROCM, core.DeviceROCMHost,
		core.DeviceCUDAManaged, core.DeviceOneAPI, core.DeviceExt, core.DeviceHexagon, core.DeviceVPI:
		return !t.OpaqueHandle()
	}
	return false
}

// ofAPI reports whether s is a stream of the API that has memory of type t.
func ofAPI(s core.Stream, t core.DeviceType) bool {
	d := s.Device()
	return d != nil && d.ID().Type.BackendName() == t.BackendName()
}

func badDevice(call string, t core.DeviceType) error {
	return core.Errorf(core.ErrNotSupported, backend, call, "Arrow has no addresses of memory on %v", t)
}
