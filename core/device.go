package core

import (
	"strconv"
	"strings"
)

// DeviceType tells where memory lives. The values are those of DLDeviceType in
// dlpack.h 1.3 and, from [DeviceTPU] on, of its unreleased main branch. The
// enumeration is open: a type that is not listed here is carried through.
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
	DeviceTPU         DeviceType = 19 // unreleased
	DeviceTPUHost     DeviceType = 20 // unreleased
	DeviceAscend      DeviceType = 21 // unreleased
)

// DeviceGL is OpenGL. DLPack has no number for it, and a tensor of it is not
// handed out by DLPack; this is the one of kOpenGL in TVM's extension of the enumeration.
const DeviceGL DeviceType = 34

// deviceTypes is indexed by the type's value. A row without a name is unused.
var deviceTypes = [...]struct {
	name    string
	backend string // the backend that serves the type, where it is not the type's own name
	host    bool   // the host can read and write the memory through its address
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

// unknownDevice is the prefix under which a type that has no name prints and parses.
const unknownDevice = "device"

// Known reports whether the type is one of those above.
func (t DeviceType) Known() bool {
	return t > 0 && int(t) < len(deviceTypes) && deviceTypes[t].name != ""
}

// String gives the type's name in dlx ("cuda_host"), or "device99" for a type that has none.
func (t DeviceType) String() string {
	if t.Known() {
		return deviceTypes[t].name
	}
	return unknownDevice + strconv.FormatInt(int64(t), 10)
}

// BackendName gives the name of the backend that serves memory of this type:
// "cuda" for cuda, cuda_host and cuda_managed.
func (t DeviceType) BackendName() string {
	if t.Known() && deviceTypes[t].backend != "" {
		return deviceTypes[t].backend
	}
	return t.String()
}

// HostAccessible reports whether the host may read and write memory of this type
// through its data address: CPU, pinned and managed memory.
func (t DeviceType) HostAccessible() bool {
	return uint32(t) < uint32(len(deviceTypes)) && deviceTypes[t].host
}

// OpaqueHandle reports whether a data pointer of this type is the handle of an
// object (cl_mem, VkBuffer, id<MTLBuffer>, WGPUBuffer, the name of a GL buffer)
// instead of an address, so that an offset is carried beside it and never added to it.
func (t DeviceType) OpaqueHandle() bool {
	return uint32(t) < uint32(len(deviceTypes)) && deviceTypes[t].opaque
}

// ParseDeviceType reads what [DeviceType.String] prints.
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
	return 0, Errorf(ErrDevice, "core", "ParseDeviceType", "%q is no device type; examples: cpu, cuda, cuda_host, vulkan", s)
}

// DeviceID names a place for memory: a type and the index of the device among
// those of its type. It has the layout of DLDevice. For CPU, pinned and managed
// memory the index is 0.
type DeviceID struct {
	Type  DeviceType
	Index int32
}

// CPU is the host.
var CPU = DeviceID{Type: DeviceCPU}

// String gives "cuda:0", and for index 0 of host-accessible types, which have no
// further indices, the bare type: "cpu".
func (d DeviceID) String() string {
	if d.Index == 0 && d.Type.HostAccessible() {
		return d.Type.String()
	}
	return d.Type.String() + ":" + strconv.FormatInt(int64(d.Index), 10)
}

// ParseDevice reads "cuda:1", "cpu" or "vulkan" (which means index 0).
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

// MarshalText makes DeviceID print by name in JSON.
func (d DeviceID) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what [ParseDevice] reads.
func (d *DeviceID) UnmarshalText(text []byte) error {
	id, err := ParseDevice(string(text))
	if err == nil {
		*d = id
	}
	return err
}
