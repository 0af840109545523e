//go:build cgo && !windows

package dlpack

// #include "exchange.h"
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/internal/abi"
)

// Table returns dlx's own table, for other libraries of this process. It is in C
// memory and lives as long as the process; nobody may change it.
//
// Its allocator makes row-major CPU tensors of malloc'ed memory, aligned to 256
// bytes. current_work_stream answers NULL for the CPU and refuses other devices,
// whose streams are passed explicitly in dlx. The functions that convert Python
// objects must be there but cannot work without a Python type: they answer -1
// and, if Python runs in this process, set a BufferError. A tensor that was to be
// converted stays the caller's.
func Table() *ExchangeAPI { return (*ExchangeAPI)(unsafe.Pointer(&C.dlx_exchange_api)) }

// Producer is another library, reached through the table that it publishes. It
// is safe for concurrent use as far as the library is.
type Producer struct{ table *ExchangeAPI }

// maxOlderTables bounds the chain of tables that is looked through: a chain that
// is longer goes round in circles.
const maxOlderTables = 32

// NewProducer takes the table that is found behind a capsule "dlpack_exchange_api".
// If it is of a newer major version, the older ones that it points at are tried.
// The table stays the library's. It fails with ErrVersion if none can be read, and
// with ErrInvalid if the table is nil or lacks a function that must be there.
func NewProducer(table *ExchangeAPI) (Producer, error) {
	if table == nil {
		return Producer{}, fail(core.ErrInvalid, "NewProducer", "the table is nil")
	}
	newest := table.Header.Version
	for range maxOlderTables {
		if table.Header.Version.Major <= abi.MajorVersion || table.Header.PrevAPI == 0 {
			break
		}
		table = (*ExchangeAPI)(abi.Pointer(table.Header.PrevAPI))
	}
	if table.Header.Version.Major != abi.MajorVersion {
		return Producer{}, fail(core.ErrVersion, "NewProducer", "the table has version %d.%d and none of major version %d behind it", newest.Major, newest.Minor, abi.MajorVersion)
	}
	for name, function := range map[string]uintptr{
		"managed_tensor_allocator":              table.ManagedTensorAllocator,
		"managed_tensor_from_py_object_no_sync": table.ManagedTensorFromPyObjectNoSync,
		"managed_tensor_to_py_object_no_sync":   table.ManagedTensorToPyObjectNoSync,
		"current_work_stream":                   table.CurrentWorkStream,
	} {
		if function == 0 {
			return Producer{}, fail(core.ErrInvalid, "NewProducer", "%s is NULL", name)
		}
	}
	return Producer{table}, nil
}

// Allocate asks the library for a new tensor, whose elements are not set. The
// caller closes it. It fails with ErrOutOfMemory, ErrNotSupported or ErrInvalid,
// as the library's error is called MemoryError, NotImplementedError or
// BufferError, or otherwise; with ErrInvalid if the library makes something
// else than was asked for; and like [Import].
func (p Producer) Allocate(id core.DeviceID, dtype core.DType, shape ...int64) (*core.Tensor, error) {
	if p.table == nil {
		return nil, fail(core.ErrInvalid, "Allocate", "the producer was not made by NewProducer")
	}
	var reason C.struct_dlx_error
	m := C.dlx_allocate(
		p.address(),
		device(id),
		C.DLDataType{code: C.uint8_t(dtype.Code), bits: C.uint8_t(dtype.Bits), lanes: C.uint16_t(dtype.Lanes)},
		C.int32_t(len(shape)),
		(*C.int64_t)(unsafe.SliceData(shape)),
		&reason,
	)
	if m == 0 {
		kind, message := C.GoString(&reason.kind[0]), C.GoString(&reason.message[0])
		sentinel := core.ErrInvalid
		switch kind {
		case "MemoryError":
			sentinel = core.ErrOutOfMemory
		case "NotImplementedError", "BufferError":
			sentinel = core.ErrNotSupported
		}
		return nil, fail(sentinel, "managed_tensor_allocator", "the library says %s: %s", kind, message)
	}
	t, err := Import((*ManagedTensorVersioned)(abi.Pointer(uintptr(m))))
	if err != nil {
		return nil, err
	}
	if t.ID() != id || t.DType() != dtype || !slices.Equal(t.Shape(), shape) {
		_ = t.Close() // never fails
		return nil, fail(core.ErrInvalid, "managed_tensor_allocator", "asked for %v%v on %v, got %v", dtype, shape, id, t)
	}
	return t, nil
}

// CurrentWorkStream asks the library for its current stream on a device, as the
// API's own handle; 0 for the CPU. It fails with ErrNotSupported if the library refuses.
func (p Producer) CurrentWorkStream(id core.DeviceID) (uintptr, error) {
	if p.table == nil {
		return 0, fail(core.ErrInvalid, "CurrentWorkStream", "the producer was not made by NewProducer")
	}
	var stream C.uintptr_t
	if code := C.dlx_current_work_stream(p.address(), device(id), &stream); code != 0 {
		return 0, &core.Error{
			Backend: "dlpack",
			Call:    "current_work_stream",
			Code:    int64(code),
			Detail:  fmt.Sprintf("the library names no stream for %v", id),
			Err:     core.ErrNotSupported,
		}
	}
	return uintptr(stream), nil
}

func (p Producer) address() C.uintptr_t { return C.uintptr_t(uintptr(unsafe.Pointer(p.table))) }

func device(id core.DeviceID) C.DLDevice {
	return C.DLDevice{device_type: C.int32_t(id.Type), device_id: C.int32_t(id.Index)}
}

func init() {
	core.CountLive("dlpack.Allocation", func() int64 { return int64(C.dlx_allocations()) })
}
