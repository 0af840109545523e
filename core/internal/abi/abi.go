// Package abi mirrors the structs of dlpack.h 1.3, field by field. It is the only
// place that knows their layout; its tests prove every size, offset and constant
// against a C compiler and the header itself. The file abi.h beside it declares
// the same structs for the C code of this module.
//
// Pointers are uintptr: most of what they hold is no Go pointer (device
// addresses, handles, C memory), some of it is garbage until it is validated,
// and the garbage collector must look at none of it.
package abi

import "unsafe"

// The version of dlpack.h that is mirrored here.
const (
	MajorVersion = 1
	MinorVersion = 3
)

// The bits of ManagedTensorVersioned.Flags, DLPACK_FLAG_BITMASK_* in the header.
const (
	FlagReadOnly      = 1 << 0 // READ_ONLY
	FlagCopied        = 1 << 1 // IS_COPIED
	FlagSubBytePadded = 1 << 2 // IS_SUBBYTE_TYPE_PADDED
)

// Version is DLPackVersion.
type Version struct {
	Major, Minor uint32
}

// Device is DLDevice.
type Device struct {
	Type int32
	ID   int32
}

// DataType is DLDataType.
type DataType struct {
	Code  uint8
	Bits  uint8
	Lanes uint16
}

// Tensor is DLTensor.
type Tensor struct {
	Data       uintptr // address or handle of the memory
	Device     Device
	NDim       int32
	DType      DataType
	Shape      uintptr // *int64, NDim extents
	Strides    uintptr // *int64, NDim strides in elements; NULL is row-major before 1.2
	ByteOffset uint64  // from Data to the first element
}

// ManagedTensor is DLManagedTensor, the legacy struct of DLPack 0.x.
type ManagedTensor struct {
	Tensor     Tensor
	ManagerCtx uintptr // the producer's
	Deleter    uintptr // void (*)(DLManagedTensor *), or NULL
}

// ManagedTensorVersioned is DLManagedTensorVersioned. Everything up to Flags is
// the same in every major version.
type ManagedTensorVersioned struct {
	Version    Version
	ManagerCtx uintptr // the producer's
	Deleter    uintptr // void (*)(DLManagedTensorVersioned *), or NULL
	Flags      uint64
	Tensor     Tensor
}

// ExchangeAPIHeader is DLPackExchangeAPIHeader, the part of the exchange table
// that is the same in every version.
type ExchangeAPIHeader struct {
	Version Version
	PrevAPI uintptr // *ExchangeAPIHeader of an older version, or NULL
}

// ExchangeAPI is DLPackExchangeAPI, a table of C functions that lives as long as
// the process.
type ExchangeAPI struct {
	Header                          ExchangeAPIHeader
	ManagedTensorAllocator          uintptr
	ManagedTensorFromPyObjectNoSync uintptr
	ManagedTensorToPyObjectNoSync   uintptr
	DLTensorFromPyObjectNoSync      uintptr // may be NULL
	CurrentWorkStream               uintptr
}

// Pointer turns an address into a pointer. The address is one that C gave, or
// that of pinned Go memory, so the checks for arithmetic on Go pointers do not apply.
//
//go:nocheckptr
func Pointer(address uintptr) unsafe.Pointer { return unsafe.Add(unsafe.Pointer(nil), address) }
