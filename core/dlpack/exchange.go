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
	"github.com/dlx-go/dlx/internal/live"
)

// Table returns the function table of dlx, for other libraries in the same process. The
// table lies in C memory, is valid as long as the process runs, and must not be changed.
//
// Its allocator makes row-major CPU tensors in memory from malloc, aligned to 256 bytes.
// current_work_stream returns NULL for the CPU and fails for other devices, because dlx has
// no current stream; callers pass streams explicitly. The two functions that convert Python
// objects are required by DLPack but cannot work without a Python type. They return -1 and,
// if Python runs in this process, set a BufferError. The caller then still owns the tensor
// that was to be converted.
func Table() *ExchangeAPI { return (*ExchangeAPI)(unsafe.Pointer(&C.dlx_exchange_api)) }

// Producer is another library, accessed through its function table. It is safe for
// concurrent use if the library is.
type Producer struct{ table *ExchangeAPI }

// maxOlderTables bounds the number of older tables that are tried. It protects against a
// chain of tables that is a cycle.
const maxOlderTables = 32

// NewProducer returns the producer for a function table, which a Python library publishes in
// the capsule "dlpack_exchange_api". If the table has a newer major version, NewProducer
// tries the older tables that it links to. The library still owns the table. NewProducer
// returns ErrVersion if no table has a supported version, and ErrInvalid if table is nil or
// lacks a required function.
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

// Allocate makes the library allocate a tensor, whose elements are not initialized. The
// caller closes it. Allocate returns
//
//   - ErrOutOfMemory if the library reports a MemoryError;
//   - ErrNotSupported if it reports a NotImplementedError or a BufferError;
//   - ErrInvalid if it reports another error, or returns a tensor that differs from what was
//     requested;
//   - the errors of [Import].
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
		return nil, fail(sentinel, "managed_tensor_allocator", "the library reports %s: %s", kind, message)
	}
	t, err := Import((*ManagedTensorVersioned)(abi.Pointer(uintptr(m))), ImportOptions{})
	if err != nil {
		return nil, err
	}
	if t.DeviceID() != id || t.DType() != dtype || !slices.Equal(t.Shape(), shape) {
		_ = t.Close() // never fails
		return nil, fail(core.ErrInvalid, "managed_tensor_allocator", "asked for %v%v on %v, got %v", dtype, shape, id, t)
	}
	return t, nil
}

// CurrentWorkStream returns the library's current stream on a device, as a handle of the
// device's API. The handle is 0 for the CPU. CurrentWorkStream returns ErrNotSupported if the
// library reports an error.
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
			Detail:  fmt.Sprintf("the library has no current stream for %v", id),
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
	live.Count("dlpack.Allocation", func() int64 { return int64(C.dlx_allocations()) })
}
