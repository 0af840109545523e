//go:build cgo && unix

package onnxruntime

import "github.com/dlx-go/dlx/core"

// placeNames has the names by which OrtMemoryInfo knows kinds of memory.
var placeNames = map[core.DeviceType]string{
	core.DeviceCPU:         "Cpu",
	core.DeviceCUDA:        "Cuda",
	core.DeviceCUDAManaged: "Cuda", // its driver moves the pages
	core.DeviceCUDAHost:    "CudaPinned",
	core.DeviceROCM:        "Hip",
	core.DeviceROCMHost:    "HipPinned",
}

// placeTypes is the inverse of placeNames.
var placeTypes = map[string]core.DeviceType{
	"Cpu":        core.DeviceCPU,
	"Cuda":       core.DeviceCUDA,
	"CudaPinned": core.DeviceCUDAHost,
	"Hip":        core.DeviceROCM,
	"HipPinned":  core.DeviceROCMHost,
}

func placeName(id core.DeviceID) (string, error) {
	name, ok := placeNames[id.Type]
	if !ok {
		return "", core.Errorf(core.ErrNotSupported, apiName, "CreateMemoryInfo",
			"memory of %v; ONNX Runtime takes memory of the CPU, of CUDA and of ROCm: use exchange.To", id)
	}
	return name, nil
}

func placeID(name string, id int32) (core.DeviceID, error) {
	t, ok := placeTypes[name]
	if !ok {
		return core.DeviceID{}, core.Errorf(core.ErrNotSupported, apiName, "MemoryInfoGetName", "memory of the kind %q", name)
	}
	if t.HostAccessible() {
		id = 0 // as for all such memory
	}
	return core.DeviceID{Type: t, Index: id}, nil
}
