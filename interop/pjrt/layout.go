//go:build cgo && unix

package pjrt

import (
	"math/bits"

	"github.com/dlx-go/dlx/core"
)

const apiName = "pjrt" // the Backend of errors

// orderStrides returns the strides of a tensor without gaps whose axes have an order in memory, the fastest first.
func orderStrides(minorToMajor, shape []int64) ([]int64, error) {
	strides := make([]int64, len(shape))
	seen := make([]bool, len(shape))
	next := uint64(1)
	for _, axis := range minorToMajor {
		if axis < 0 || axis >= int64(len(shape)) || seen[axis] || shape[axis] < 0 {
			return nil, core.Errorf(core.ErrLayout, apiName, "PJRT_Buffer_GetMemoryLayout", "the order %v of the axes of %v", minorToMajor, shape)
		}
		seen[axis] = true
		strides[axis] = int64(next)
		high, low := bits.Mul64(next, uint64(max(shape[axis], 1)))
		if high != 0 || low > 1<<62 {
			return nil, core.Errorf(core.ErrLayout, apiName, "PJRT_Buffer_GetMemoryLayout", "the shape %v overflows", shape)
		}
		next = low
	}
	return strides, nil
}

// byteStrides returns strides in elements.
func byteStrides(inBytes []int64, itemSize int64) ([]int64, error) {
	strides := make([]int64, len(inBytes))
	for i, s := range inBytes {
		if s%itemSize != 0 {
			return nil, core.Errorf(core.ErrLayout, apiName, "PJRT_Buffer_GetMemoryLayout", "a stride of %d bytes for elements of %d", s, itemSize)
		}
		strides[i] = s / itemSize
	}
	return strides, nil
}

// place returns where a buffer lies: on a device of a platform of PJRT with its hardware's number, or on the host.
func place(platform string, onHost bool, hardware int) (core.DeviceID, error) {
	switch {
	case onHost && platform == "cpu":
		return core.CPU, nil
	case onHost && platform == "cuda":
		return core.DeviceID{Type: core.DeviceCUDAHost}, nil
	case onHost && platform == "rocm":
		return core.DeviceID{Type: core.DeviceROCMHost}, nil
	}
	t, ok := map[string]core.DeviceType{"cuda": core.DeviceCUDA, "rocm": core.DeviceROCM}[platform]
	if !ok || onHost || hardware < 0 || hardware > 1<<31-1 {
		return core.DeviceID{}, core.Errorf(core.ErrNotSupported, apiName, "PJRT_Buffer_Device",
			"memory of device %d of the platform %q; PJRT shares memory on the CPU, CUDA and ROCm", hardware, platform)
	}
	return core.DeviceID{Type: t, Index: int32(hardware)}, nil
}
