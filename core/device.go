package core

import (
	"strconv"
	"strings"
)

// DeviceType is a kind of memory. The values are those of DLDeviceType in dlpack.h 1.3
// and, from [DeviceTPU] on, of its unreleased main branch. A value that is not listed here
// is allowed, and is passed on unchanged.
type DeviceType int32

// The device types of DLPack.
const (
	DeviceCPU         DeviceType = 1
	DeviceCUDA        DeviceType = 2
	DeviceCUDAHost    DeviceType = 3 // pinned host memory of CUDA
	DeviceOpenCL      DeviceType = 4
	DeviceVulkan      DeviceType = 7
	DeviceMetal       DeviceType = 8
	DeviceVPI         DeviceType = 9
	DeviceROCM        DeviceType = 10
	DeviceROCMHost    DeviceType = 11 // pinned host memory of ROCm
	DeviceExt         DeviceType = 12 // reserved for extensions and experiments
	DeviceCUDAManaged DeviceType = 13
	DeviceOneAPI      DeviceType = 14
	DeviceWebGPU      DeviceType = 15
	DeviceHexagon     DeviceType = 16
	DeviceMAIA        DeviceType = 17
	DeviceTrn         DeviceType = 18
	DeviceTPU         DeviceType = 19 // not in a release of DLPack
	DeviceTPUHost     DeviceType = 20 // not in a release of DLPack
	DeviceAscend      DeviceType = 21 // not in a release of DLPack
)

// DeviceGL is OpenGL. DLPack does not define it, so tensors on it cannot be exported as
// DLPack. The value is that of kOpenGL in TVM's extension of DLDeviceType.
const DeviceGL DeviceType = 34

// deviceTypes is indexed by the type's value. A row without a name is unused.
var deviceTypes = [...]struct {
	name    string
	backend string // the backend that serves the type, where it is not the type's own name
	host    bool   // the host can read and write the memory at its address
	opaque  bool   // the data pointer is a handle, not an address
}{
	DeviceCPU:         {name: "cpu", host: true},
	DeviceCUDA:        {name: "cuda"},
	DeviceCUDAHost:    {name: "cuda_host", backend: "cuda", host: true},
	DeviceOpenCL:      {name: "opencl", opaque: true},
	DeviceVulkan:      {name: "vulkan", opaque: true},
	DeviceMetal:       {name: "metal", opaque: true},
	DeviceVPI:         {name: "vpi"},
	DeviceROCM:        {name: "rocm"},
	DeviceROCMHost:    {name: "rocm_host", backend: "rocm", host: true},
	DeviceExt:         {name: "ext_dev"},
	DeviceCUDAManaged: {name: "cuda_managed", backend: "cuda", host: true},
	DeviceOneAPI:      {name: "oneapi"},
	DeviceWebGPU:      {name: "webgpu", opaque: true},
	DeviceHexagon:     {name: "hexagon"},
	DeviceMAIA:        {name: "maia"},
	DeviceTrn:         {name: "trn"},
	DeviceTPU:         {name: "tpu"},
	DeviceTPUHost:     {name: "tpu_host", backend: "tpu"},
	DeviceAscend:      {name: "ascend"},
	DeviceGL:          {name: "gl", opaque: true},
}

// unknownDevice is the prefix of the text of a type that has no name.
const unknownDevice = "device"

// Known reports whether the type is one of the constants of this package.
func (t DeviceType) Known() bool {
	return t > 0 && int(t) < len(deviceTypes) && deviceTypes[t].name != ""
}

// String returns the type's name, such as "cuda_host". For an unknown type it returns
// "device" and the number, such as "device99".
func (t DeviceType) String() string {
	if t.Known() {
		return deviceTypes[t].name
	}
	return unknownDevice + strconv.FormatInt(int64(t), 10)
}

// BackendName returns the name of the backend that serves memory of this type. For
// example, it is "cuda" for cuda, cuda_host and cuda_managed.
func (t DeviceType) BackendName() string {
	if t.Known() && deviceTypes[t].backend != "" {
		return deviceTypes[t].backend
	}
	return t.String()
}

// HostAccessible reports whether the host can read and write memory of this type at its
// address. It is true for CPU memory, pinned memory and managed memory.
func (t DeviceType) HostAccessible() bool {
	return uint32(t) < uint32(len(deviceTypes)) && deviceTypes[t].host
}

// OpaqueHandle reports whether the data pointer of this type is the handle of an object
// and not an address. Examples are cl_mem, VkBuffer, id<MTLBuffer>, WGPUBuffer and the
// name of an OpenGL buffer. An offset is then a separate number that must not be added to
// the handle.
func (t DeviceType) OpaqueHandle() bool {
	return uint32(t) < uint32(len(deviceTypes)) && deviceTypes[t].opaque
}

// addressed reports whether memory of the type is known to have an address: that of CUDA, ROCm and the host. OpaqueHandle has the types
// that are known to have a handle. Of the others DLPack says neither.
func (t DeviceType) addressed() bool { return t == DeviceCUDA || t == DeviceROCM || t.HostAccessible() }

// ParseDeviceType parses the output of [DeviceType.String]. It returns ErrDevice for
// anything else.
func ParseDeviceType(s string) (DeviceType, error) {
	for t, row := range deviceTypes {
		if row.name != "" && row.name == s {
			return DeviceType(t), nil
		}
	}
	if n, ok := strings.CutPrefix(s, unknownDevice); ok {
		v, err := strconv.ParseInt(n, 10, 32)
		if t := DeviceType(v); err == nil && t.String() == s {
			return t, nil
		}
	}
	return 0, Errorf(ErrDevice, "core", "ParseDeviceType", "%q is not a device type; examples: cpu, cuda, cuda_host, vulkan", s)
}

// DeviceID identifies the place of memory: its type, and the index of the device among
// the devices of that type. It has the layout of DLDevice in dlpack.h. For CPU, pinned and
// managed memory the index is 0.
type DeviceID struct {
	Type  DeviceType
	Index int32
}

// CPU is the DeviceID of the host's memory.
var CPU = DeviceID{Type: DeviceCPU}

// unreachable returns an error for memory that the host cannot reach, with what the program can do.
func (d DeviceID) unreachable(call string) error {
	if d.Type.addressed() || d.Type.OpaqueHandle() {
		return Errorf(ErrDevice, "core", call, "the host cannot reach memory on %v: copy it to the host first", d)
	}
	return Errorf(ErrDevice, "core", call, "it is unknown how memory on %v is reached: if it is that of the host, CUDA or ROCm, import it as such, by OnDevice of dlpack.ImportOptions", d)
}

// unowned returns an error for memory that neither the host nor an opened device can reach, with what the program can do.
func (d DeviceID) unowned(call string) error {
	if d.Type.addressed() || d.Type.OpaqueHandle() {
		return Errorf(ErrDevice, "core", call, "no opened device owns the memory on %v: open the device, and use exchange.To", d)
	}
	return d.unreachable(call)
}

// String returns the type and the index, such as "cuda:0". For index 0 of a
// host-accessible type it returns only the type, such as "cpu".
func (d DeviceID) String() string {
	if d.Index == 0 && d.Type.HostAccessible() {
		return d.Type.String()
	}
	return d.Type.String() + ":" + strconv.FormatInt(int64(d.Index), 10)
}

// ParseDevice parses a type and an index, such as "cuda:1". Without an index, as in "cpu"
// or "vulkan", the index is 0. It returns ErrDevice for anything else. It does not check
// that there is such a device.
func ParseDevice(s string) (DeviceID, error) {
	name, index, indexed := strings.Cut(s, ":")
	t, err := ParseDeviceType(name)
	if err != nil {
		return DeviceID{}, err
	}
	id := DeviceID{Type: t}
	if !indexed {
		return id, nil
	}
	n, err := strconv.ParseUint(index, 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != index {
		return DeviceID{}, Errorf(ErrDevice, "core", "ParseDevice", "%q: the index after ':' must be a decimal number from 0 to 2147483647", s)
	}
	id.Index = int32(n)
	return id, nil
}

// MarshalText returns the same text as [DeviceID.String].
func (d DeviceID) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses text as [ParseDevice] does.
func (d *DeviceID) UnmarshalText(text []byte) error {
	id, err := ParseDevice(string(text))
	if err == nil {
		*d = id
	}
	return err
}
