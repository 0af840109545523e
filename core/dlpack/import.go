//go:build cgo && !windows

package dlpack

// #include "node.h"
import "C"

import (
	"cmp"
	"math"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/internal/abi"
	"github.com/dlx-go/dlx/core/typecode"
)

// Import makes a tensor from a struct of DLPack 1.x, without a copy of the elements. The
// caller closes the tensor. Import always takes ownership of m. If it returns an error, it
// has called the deleter of m. Otherwise the deleter is called once, from any goroutine,
// after the last view of the tensor is closed and all work on it is done. A NULL deleter is
// not called.
//
// The tensor has the device, type, shape, strides, offset and flags of m. Unknown device
// types and type codes are kept. Strides may be negative. NULL strides, which producers
// before DLPack 1.2 send, mean row-major. Without Size of [ImportOptions], Import cannot check whether
// the elements lie inside of the memory.
//
// Import reads each field, extent and stride once, and checks the values that it read. It is
// therefore safe if the producer changes m during the call.
//
// Import returns
//
//   - ErrInvalid if m is nil, or if data is NULL although there are elements;
//   - ErrVersion if the major version is not 1, or a flag is unknown, since that flag could
//     change the meaning of the other fields;
//   - ErrDType if bits or lanes are 0 or do not fit the type code;
//   - ErrDevice if the device type is the one that dlx uses for OpenGL, which DLPack does
//     not define, or if OnDevice of [ImportOptions] contradicts the struct;
//   - ErrLayout if ndim is negative or above core.MaxRank, shape is NULL, an extent is
//     negative, a product overflows, or an element lies outside of the memory.
func Import(m *ManagedTensorVersioned, options ImportOptions) (*core.Tensor, error) {
	if m == nil {
		return nil, fail(core.ErrInvalid, "Import", "the managed tensor is nil")
	}
	t, err := wrapVersioned(m, &options)
	if err != nil {
		(*foreign)(m).Free() // err does not refer to m
	}
	return t, err
}

// wrapVersioned checks version and flags, and reads the other fields of m only if the version
// says that they exist.
func wrapVersioned(m *ManagedTensorVersioned, o *ImportOptions) (*core.Tensor, error) {
	flags := m.Flags
	if err := checkVersion(m.Version, flags, "Import"); err != nil {
		return nil, err
	}
	tensor := m.Tensor
	return wrap(&tensor, core.Flags(flags), (*foreign)(m), "Import", o)
}

func checkVersion(version abi.Version, flags uint64, call string) error {
	if version.Major != abi.MajorVersion {
		return fail(core.ErrVersion, call, "the tensor has DLPack version %d.%d, only major version %d can be read: ask the producer for that (max_version)", version.Major, version.Minor, abi.MajorVersion)
	}
	if unknown := flags &^ (abi.FlagReadOnly | abi.FlagCopied | abi.FlagSubBytePadded); unknown != 0 {
		return fail(core.ErrVersion, call, "flags has unknown bits %#x, which a newer version than %d.%d may have given a meaning", unknown, abi.MajorVersion, abi.MinorVersion)
	}
	return nil
}

// ImportLegacy is like [Import], for the struct of DLPack 0.x, which has neither version nor
// flags.
func ImportLegacy(m *ManagedTensor, options ImportOptions) (*core.Tensor, error) {
	if m == nil {
		return nil, fail(core.ErrInvalid, "ImportLegacy", "the managed tensor is nil")
	}
	tensor := m.Tensor
	t, err := wrap(&tensor, 0, (*foreignLegacy)(m), "ImportLegacy", &options)
	if err != nil {
		(*foreignLegacy)(m).Free()
	}
	return t, err
}

// foreign is a struct of another library. It is the Owner of the memory that it describes.
type foreign ManagedTensorVersioned

var _ core.Owner = (*foreign)(nil)

// Free calls the deleter, which frees the struct itself.
func (m *foreign) Free() {
	if deleter := m.Deleter; deleter != 0 {
		C.dlx_call_versioned(C.uintptr_t(deleter), C.uintptr_t(uintptr(unsafe.Pointer(m))))
	}
}

// foreignLegacy is foreign for the legacy struct.
type foreignLegacy ManagedTensor

var _ core.Owner = (*foreignLegacy)(nil)

// Free calls the deleter, which frees the struct itself.
func (m *foreignLegacy) Free() {
	if deleter := m.Deleter; deleter != 0 {
		C.dlx_call_legacy(C.uintptr_t(deleter), C.uintptr_t(uintptr(unsafe.Pointer(m))))
	}
}

// wrap makes a tensor from d, which is a copy of the struct. The tensor takes ownership of
// owner, unless wrap fails.
func wrap(d *abi.Tensor, flags core.Flags, owner core.Owner, call string, o *ImportOptions) (*core.Tensor, error) {
	if err := check(d, call, o); err != nil {
		return nil, err
	}
	shape, strides := arrays(d)
	// Written in place: a function that returned both structs would cost as much as the checks.
	t, err := core.Wrap(
		core.Memory{ID: place(d, o), Handle: d.Data, Size: cmp.Or(o.Size, core.UnknownSize), Owner: owner},
		core.Spec{DType: dtype(d), Shape: shape, Strides: strides, Offset: int64(d.ByteOffset), Flags: flags},
	)
	if err != nil {
		return nil, &core.Error{Backend: "dlpack", Call: call, Err: err}
	}
	return t, nil
}

func dtype(d *abi.Tensor) core.DType {
	return core.DType{Code: typecode.Code(d.DType.Code), Bits: d.DType.Bits, Lanes: d.DType.Lanes}
}

// arrays returns the shape and the strides of d, which has been checked. They belong to the producer, who may change
// them; core reads each value once.
func arrays(d *abi.Tensor) (shape, strides []int64) {
	if d.NDim == 0 {
		return nil, nil
	}
	if d.Strides != 0 {
		strides = unsafe.Slice((*int64)(abi.Pointer(d.Strides)), d.NDim)
	}
	return unsafe.Slice((*int64)(abi.Pointer(d.Shape)), d.NDim), strides
}

// place returns the place of d's memory.
func place(d *abi.Tensor, o *ImportOptions) core.DeviceID {
	if o.OnDevice != (core.DeviceID{}) {
		return o.OnDevice
	}
	return core.DeviceID{Type: core.DeviceType(d.Device.Type), Index: d.Device.ID}
}

// check checks the fields of d, which is a copy of the struct, that core cannot check.
func check(d *abi.Tensor, call string, o *ImportOptions) error {
	kind, elsewhere := core.DeviceType(d.Device.Type), o.OnDevice != core.DeviceID{}
	code := typecode.Code(d.DType.Code)
	switch bits := definedBits(code); {
	case d.NDim < 0 || d.NDim > core.MaxRank:
		return fail(core.ErrLayout, call, "ndim is %d; 0 to %d axes are supported", d.NDim, core.MaxRank)
	case d.NDim > 0 && d.Shape == 0:
		return fail(core.ErrLayout, call, "shape is NULL, but ndim is %d", d.NDim)
	case d.ByteOffset > math.MaxInt64:
		return fail(core.ErrLayout, call, "byte_offset is %d, more than an int64 counts", d.ByteOffset)
	case kind == core.DeviceGL:
		return fail(core.ErrDevice, call, "device.device_type is %d, which DLPack does not define; dlx uses it for OpenGL, whose tensors DLPack cannot describe", d.Device.Type)
	case elsewhere && (privateCore.Addressed(kind) || kind.OpaqueHandle()):
		return fail(core.ErrDevice, call, "OnDevice is %v: the memory is on %v, which says how it is reached", o.OnDevice, core.DeviceID{Type: kind, Index: d.Device.ID})
	case elsewhere && !privateCore.Addressed(o.OnDevice.Type):
		return fail(core.ErrDevice, call, "OnDevice is %v: memory there is not reached by an address", o.OnDevice)
	case o.Size < core.UnknownSize:
		return fail(core.ErrInvalid, call, "Size is %d: the number of bytes must not be negative", o.Size)
	case bits != 0 && bits != d.DType.Bits:
		return fail(core.ErrDType, call, "dtype.bits is %d, but type code %d has %d", d.DType.Bits, code, bits)
	}
	return nil
}

// definedBits returns the width that dlpack.h requires for a type code, 0 if it allows any. A
// bool has 8 bits; some producers wrongly set 1, which is an error.
func definedBits(code typecode.Code) uint8 {
	switch {
	case code == typecode.Bool, code >= typecode.Float8E3M4 && code <= typecode.Float8E8M0FNU:
		return 8
	case code == typecode.Float6E2M3FN, code == typecode.Float6E3M2FN:
		return 6
	case code == typecode.Float4E2M1FN:
		return 4
	}
	return 0
}
