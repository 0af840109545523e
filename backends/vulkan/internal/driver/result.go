//go:build vulkan && linux && cgo

package driver

// #include "shim.h"
import "C"

import (
	"fmt"

	"github.com/dlx-go/dlx/core"
)

// backend is the name that errors carry.
const backend = "vulkan"

// results are the codes that calls of this package can return, and their sentinels.
var results = map[C.VkResult]struct {
	name     string
	sentinel error
}{
	C.VK_NOT_READY:                            {"VK_NOT_READY", core.ErrInvalid},
	C.VK_TIMEOUT:                              {"VK_TIMEOUT", core.ErrInvalid},
	C.VK_INCOMPLETE:                           {"VK_INCOMPLETE", core.ErrInvalid},
	C.VK_ERROR_OUT_OF_HOST_MEMORY:             {"VK_ERROR_OUT_OF_HOST_MEMORY", core.ErrOutOfMemory},
	C.VK_ERROR_OUT_OF_DEVICE_MEMORY:           {"VK_ERROR_OUT_OF_DEVICE_MEMORY", core.ErrOutOfMemory},
	C.VK_ERROR_INITIALIZATION_FAILED:          {"VK_ERROR_INITIALIZATION_FAILED", core.ErrNotSupported},
	C.VK_ERROR_DEVICE_LOST:                    {"VK_ERROR_DEVICE_LOST", core.ErrDeviceLost},
	C.VK_ERROR_MEMORY_MAP_FAILED:              {"VK_ERROR_MEMORY_MAP_FAILED", core.ErrOutOfMemory},
	C.VK_ERROR_LAYER_NOT_PRESENT:              {"VK_ERROR_LAYER_NOT_PRESENT", core.ErrNotSupported},
	C.VK_ERROR_EXTENSION_NOT_PRESENT:          {"VK_ERROR_EXTENSION_NOT_PRESENT", core.ErrNotSupported},
	C.VK_ERROR_FEATURE_NOT_PRESENT:            {"VK_ERROR_FEATURE_NOT_PRESENT", core.ErrNotSupported},
	C.VK_ERROR_INCOMPATIBLE_DRIVER:            {"VK_ERROR_INCOMPATIBLE_DRIVER", core.ErrNotSupported},
	C.VK_ERROR_TOO_MANY_OBJECTS:               {"VK_ERROR_TOO_MANY_OBJECTS", core.ErrOutOfMemory},
	C.VK_ERROR_FRAGMENTED_POOL:                {"VK_ERROR_FRAGMENTED_POOL", core.ErrOutOfMemory},
	C.VK_ERROR_OUT_OF_POOL_MEMORY:             {"VK_ERROR_OUT_OF_POOL_MEMORY", core.ErrOutOfMemory},
	C.VK_ERROR_FRAGMENTATION:                  {"VK_ERROR_FRAGMENTATION", core.ErrOutOfMemory},
	C.VK_ERROR_INVALID_EXTERNAL_HANDLE:        {"VK_ERROR_INVALID_EXTERNAL_HANDLE", core.ErrInvalid},
	C.VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS: {"VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS", core.ErrInvalid},
	C.VK_ERROR_UNKNOWN:                        {"VK_ERROR_UNKNOWN", core.ErrInvalid},
}

// failed makes an error of a code other than VK_SUCCESS; nil of that.
func failed(r C.VkResult, call, format string, args ...any) error {
	if r == C.VK_SUCCESS {
		return nil
	}
	known, ok := results[r]
	if !ok {
		known.name, known.sentinel = fmt.Sprintf("VkResult %d", int32(r)), core.ErrInvalid
	}
	e := core.Errorf(known.sentinel, backend, call, "%s", known.name)
	e.Code = int64(r)
	if detail := fmt.Sprintf(format, args...); detail != "" {
		e.Detail += ": " + detail
	}
	return e
}
