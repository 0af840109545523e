//go:build cgo && !windows

package dlpack

// #include "node.h"
import "C"

import (
	"math"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/internal/abi"
)

// Import makes a tensor of a struct of DLPack 1.x, without a copy. m is taken over
// in every case: its deleter was called when an error is returned, and else is
// called once, from any goroutine, after the last view of the tensor was closed
// and all work on it is done. A NULL deleter is never called.
//
// The tensor has m's device, type, shape, strides, offset and flags. Device types
// and type codes that are unknown here are carried through; strides may be
// negative, and NULL strides, as producers before 1.2 send them, mean row-major.
// Without [WithSize] nothing can be said about where the memory ends.
//
// Each field, extent and stride is read once, and what was read is what is checked:
// a producer that changes m meanwhile gets an error or a tensor, as for any other struct.
//
// It fails with ErrInvalid if m is nil, or if data is NULL although there are
// elements; ErrVersion if the major version is not 1 or a flag is unknown, which
// could change the meaning of all else; ErrDType if bits or lanes are 0 or do not
// fit the code; ErrLayout if ndim is negative or above core.MaxRank, shape is
// NULL, an extent is negative, a product overflows, or elements lie outside of
// the memory.
func Import(m *ManagedTensorVersioned, opts ...Option) (*core.Tensor, error) {
	if m == nil {
		return nil, fail(core.ErrInvalid, "Import", "the managed tensor is nil")
	}
	t, err := wrapVersioned(m, opts)
	if err != nil {
		(*foreign)(m).Free() // the error is made: nothing reads m any more
	}
	return t, err
}

// wrapVersioned checks what stands before the tensor in m, and reads the rest of m
// only if that is known to be there.
func wrapVersioned(m *ManagedTensorVersioned, opts []Option) (*core.Tensor, error) {
	version, flags := m.Version, m.Flags
	if version.Major != abi.MajorVersion {
		return nil, fail(core.ErrVersion, "Import", "the tensor has DLPack version %d.%d, only major version %d can be read: ask the producer for that (max_version)", version.Major, version.Minor, abi.MajorVersion)
	}
	if unknown := flags &^ (abi.FlagReadOnly | abi.FlagCopied | abi.FlagSubBytePadded); unknown != 0 {
		return nil, fail(core.ErrVersion, "Import", "flags has unknown bits %#x, which a newer version than %d.%d may have given a meaning", unknown, abi.MajorVersion, abi.MinorVersion)
	}
	return wrap(m.Tensor, core.Flags(flags), (*foreign)(m), "Import", opts)
}

// ImportLegacy is [Import] of the struct of DLPack 0.x, which has neither version
// nor flags.
func ImportLegacy(m *ManagedTensor, opts ...Option) (*core.Tensor, error) {
	if m == nil {
		return nil, fail(core.ErrInvalid, "ImportLegacy", "the managed tensor is nil")
	}
	t, err := wrap(m.Tensor, 0, (*foreignLegacy)(m), "ImportLegacy", opts)
	if err != nil {
		(*foreignLegacy)(m).Free()
	}
	return t, err
}

// foreign is a managed tensor as the owner of its memory.
type foreign ManagedTensorVersioned

var _ core.Owner = (*foreign)(nil)

// Free calls the deleter, which frees the struct itself.
func (m *foreign) Free() {
	if deleter := m.Deleter; deleter != 0 {
		C.dlx_call_versioned(C.uintptr_t(deleter), C.uintptr_t(uintptr(unsafe.Pointer(m))))
	}
}

// foreignLegacy is a legacy managed tensor as the owner of its memory.
type foreignLegacy ManagedTensor

var _ core.Owner = (*foreignLegacy)(nil)

// Free calls the deleter, which frees the struct itself.
func (m *foreignLegacy) Free() {
	if deleter := m.Deleter; deleter != 0 {
		C.dlx_call_legacy(C.uintptr_t(deleter), C.uintptr_t(uintptr(unsafe.Pointer(m))))
	}
}

// wrap makes the tensor, which owns owner then. It checks what core cannot: the
// struct itself, of which d is a copy. What shape and strides point at is still the
// producer's; core.Wrap reads it once.
func wrap(d abi.Tensor, flags core.Flags, owner core.Owner, call string, opts []Option) (*core.Tensor, error) {
	o := options{size: core.UnknownSize}
	for _, option := range opts {
		o = option(o)
	}
	rank := d.NDim
	dtype := core.DType{Code: core.TypeCode(d.DType.Code), Bits: d.DType.Bits, Lanes: d.DType.Lanes}
	switch {
	case rank < 0 || rank > core.MaxRank:
		return nil, fail(core.ErrLayout, call, "ndim is %d; 0 to %d axes are supported", rank, core.MaxRank)
	case rank > 0 && d.Shape == 0:
		return nil, fail(core.ErrLayout, call, "shape is NULL, but ndim is %d", rank)
	case d.ByteOffset > math.MaxInt64:
		return nil, fail(core.ErrLayout, call, "byte_offset is %d, more than an int64 counts", d.ByteOffset)
	case core.DeviceType(d.Device.Type) == core.DeviceGL:
		return nil, fail(core.ErrDevice, call, "device.device_type is %d, which DLPack does not know; here it stands for OpenGL, whose tensors it cannot carry", d.Device.Type)
	case o.size < core.UnknownSize:
		return nil, fail(core.ErrInvalid, call, "WithSize(%d): the size is negative", o.size)
	}
	if bits := definedBits(dtype.Code); bits != 0 && bits != dtype.Bits {
		return nil, fail(core.ErrDType, call, "dtype.bits is %d, but type code %d has %d", dtype.Bits, dtype.Code, bits)
	}
	spec := core.Spec{DType: dtype, Offset: int64(d.ByteOffset), Flags: flags}
	if rank > 0 {
		spec.Shape = unsafe.Slice((*int64)(abi.Pointer(d.Shape)), rank)
		if d.Strides != 0 {
			spec.Strides = unsafe.Slice((*int64)(abi.Pointer(d.Strides)), rank)
		}
	}
	memory := core.Memory{
		ID:     core.DeviceID{Type: core.DeviceType(d.Device.Type), Index: d.Device.ID},
		Handle: d.Data,
		Size:   o.size,
		Owner:  owner,
	}
	t, err := core.Wrap(memory, spec)
	if err != nil {
		return nil, &core.Error{Backend: "dlpack", Call: call, Err: err}
	}
	return t, nil
}

// definedBits is the width that dlpack.h fixes for a type code, 0 where any is
// allowed. A bool of one bit, which some producers send for bytes, is refused.
func definedBits(code core.TypeCode) uint8 {
	switch {
	case code == core.CodeBool, code >= core.CodeFloat8E3M4 && code <= core.CodeFloat8E8M0FNU:
		return 8
	case code == core.CodeFloat6E2M3FN, code == core.CodeFloat6E3M2FN:
		return 6
	case code == core.CodeFloat4E2M1FN:
		return 4
	}
	return 0
}
