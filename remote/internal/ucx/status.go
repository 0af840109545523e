//go:build ucx && linux && cgo

package ucx

// #include "shim.h"
import "C"

import (
	"strconv"

	"github.com/dlx-go/dlx/core"
)

// statuses are the codes that programs meet: their names, and what they mean to a program.
var statuses = map[C.ucs_status_t]struct {
	name string
	err  error
}{
	C.UCS_ERR_NO_MEMORY:            {"UCS_ERR_NO_MEMORY", core.ErrOutOfMemory},
	C.UCS_ERR_NO_RESOURCE:          {"UCS_ERR_NO_RESOURCE", core.ErrOutOfMemory},
	C.UCS_ERR_EXCEEDS_LIMIT:        {"UCS_ERR_EXCEEDS_LIMIT", core.ErrOutOfMemory},
	C.UCS_ERR_INVALID_PARAM:        {"UCS_ERR_INVALID_PARAM", core.ErrInvalid},
	C.UCS_ERR_INVALID_ADDR:         {"UCS_ERR_INVALID_ADDR", core.ErrInvalid},
	C.UCS_ERR_MESSAGE_TRUNCATED:    {"UCS_ERR_MESSAGE_TRUNCATED", core.ErrInvalid},
	C.UCS_ERR_UNSUPPORTED:          {"UCS_ERR_UNSUPPORTED", core.ErrNotSupported},
	C.UCS_ERR_NOT_IMPLEMENTED:      {"UCS_ERR_NOT_IMPLEMENTED", core.ErrNotSupported},
	C.UCS_ERR_UNREACHABLE:          {"UCS_ERR_UNREACHABLE", core.ErrNotSupported},
	C.UCS_ERR_NO_DEVICE:            {"UCS_ERR_NO_DEVICE", core.ErrNotSupported},
	C.UCS_ERR_NO_ELEM:              {"UCS_ERR_NO_ELEM", core.ErrNotSupported},
	C.UCS_ERR_IO_ERROR:             {"UCS_ERR_IO_ERROR", core.ErrClosed},
	C.UCS_ERR_CANCELED:             {"UCS_ERR_CANCELED", core.ErrClosed},
	C.UCS_ERR_TIMED_OUT:            {"UCS_ERR_TIMED_OUT", core.ErrClosed},
	C.UCS_ERR_REJECTED:             {"UCS_ERR_REJECTED", core.ErrClosed},
	C.UCS_ERR_NOT_CONNECTED:        {"UCS_ERR_NOT_CONNECTED", core.ErrClosed},
	C.UCS_ERR_CONNECTION_RESET:     {"UCS_ERR_CONNECTION_RESET", core.ErrClosed},
	C.UCS_ERR_ENDPOINT_TIMEOUT:     {"UCS_ERR_ENDPOINT_TIMEOUT", core.ErrClosed},
	C.UCS_ERR_SOME_CONNECTS_FAILED: {"UCS_ERR_SOME_CONNECTS_FAILED", core.ErrClosed},
	C.UCS_ERR_SHMEM_SEGMENT:        {"UCS_ERR_SHMEM_SEGMENT", core.ErrClosed}, // it ended with the peer
}

// failed is the error of a call that returned status.
func failed(call string, status C.ucs_status_t) error {
	s, known := statuses[status]
	if !known {
		s.name, s.err = "status "+strconv.Itoa(int(status)), core.ErrDevice
	}
	e := core.Errorf(s.err, "ucx", call, "%s", s.name)
	e.Code = int64(status)
	return e
}
