//go:build cgo && !windows

package hostile

// #cgo CFLAGS: -std=c11 -D_DEFAULT_SOURCE -I${SRCDIR}/../../../internal/abi
// #cgo linux LDFLAGS: -lpthread
// #include "hostile.h"
import "C"

import (
	"unsafe"

	"github.com/dlx-go/dlx/core/internal/abi"
)

// Fields are what a foreign struct claims. Nil Shape and Strides are NULL.
type Fields struct {
	Version        abi.Version
	Flags          uint64
	Data           uintptr
	Device         abi.Device
	NDim           int32
	DType          abi.DataType
	Shape, Strides []int64
	ByteOffset     uint64
	NoDeleter      bool // a NULL deleter
}

// Producer is a foreign managed tensor in C memory that becomes inaccessible when
// its deleter is called.
type Producer struct{ c *C.struct_producer }

// New makes a managed tensor of DLPack 1.x. The test frees it.
func New(f Fields) Producer {
	m := abi.ManagedTensorVersioned{Version: f.Version, Flags: f.Flags, Tensor: f.tensor()}
	p := produce(unsafe.Pointer(&m), unsafe.Sizeof(m), f)
	placed := p.Versioned()
	p.place(&placed.Tensor, unsafe.Sizeof(m), f)
	placed.ManagerCtx = uintptr(unsafe.Pointer(p.c))
	if !f.NoDeleter {
		placed.Deleter = uintptr(unsafe.Pointer(C.delete_producer))
	}
	return p
}

// NewLegacy makes a managed tensor of DLPack 0.x.
func NewLegacy(f Fields) Producer {
	m := abi.ManagedTensor{Tensor: f.tensor()}
	p := produce(unsafe.Pointer(&m), unsafe.Sizeof(m), f)
	placed := p.Legacy()
	p.place(&placed.Tensor, unsafe.Sizeof(m), f)
	placed.ManagerCtx = uintptr(unsafe.Pointer(p.c))
	if !f.NoDeleter {
		placed.Deleter = uintptr(unsafe.Pointer(C.delete_producer_legacy))
	}
	return p
}

// NewTruncated is New, but everything behind flags is inaccessible: the struct
// of another major version ends there as far as anybody knows.
func NewTruncated(f Fields) Producer {
	m := abi.ManagedTensorVersioned{Version: f.Version, Flags: f.Flags, Deleter: uintptr(unsafe.Pointer(C.delete_producer))}
	c := C.new_truncated_producer(unsafe.Pointer(&m), C.size_t(unsafe.Offsetof(m.Tensor)))
	if c == nil {
		panic("hostile: no memory")
	}
	p := Producer{c}
	p.Versioned().ManagerCtx = uintptr(unsafe.Pointer(c))
	return p
}

func (f Fields) tensor() abi.Tensor {
	return abi.Tensor{Data: f.Data, Device: f.Device, NDim: f.NDim, DType: f.DType, ByteOffset: f.ByteOffset}
}

func produce(managed unsafe.Pointer, size uintptr, f Fields) Producer {
	dims := append(append([]int64{0}, f.Shape...), f.Strides...)[1:]
	c := C.new_producer(managed, C.size_t(size), (*C.int64_t)(unsafe.SliceData(dims)), C.size_t(len(dims)))
	if c == nil {
		panic("hostile: no memory")
	}
	return Producer{c}
}

// place points the struct at its dims.
func (p Producer) place(t *abi.Tensor, at uintptr, f Fields) {
	base := uintptr(p.c.managed) + at
	if f.Shape != nil {
		t.Shape = base
	}
	if f.Strides != nil {
		t.Strides = base + uintptr(8*len(f.Shape))
	}
}

// Versioned is the struct of New.
func (p Producer) Versioned() *abi.ManagedTensorVersioned {
	return (*abi.ManagedTensorVersioned)(p.c.managed)
}

// Legacy is the struct of NewLegacy.
func (p Producer) Legacy() *abi.ManagedTensor { return (*abi.ManagedTensor)(p.c.managed) }

// Deleted is how often the deleter was called.
func (p Producer) Deleted() int { return int(C.producer_deleted(p.c)) }

// Free gives the memory of the struct back.
func (p Producer) Free() { C.free_producer(p.c) }

// Fickle is a producer that changes its structs all the time, from a thread of its
// own: every field but the deleter is valid and invalid by turns. Its tensors are of
// float32; where it gives strides, each is [FickleStride] or the largest int64.
type Fickle struct{ c *C.struct_fickle }

// FickleStride is what row-major tensors of a Fickle's shapes do not have.
const FickleStride = 3

// NewFickle starts the thread. Data is an address of 64 bytes or more. The test
// closes the producer.
func NewFickle(data uintptr) Fickle {
	c := C.new_fickle(C.uintptr_t(data))
	if c == nil {
		panic("hostile: no memory")
	}
	return Fickle{c}
}

// Versioned is its struct of DLPack 1.x, which may be imported again and again.
func (f Fickle) Versioned() *abi.ManagedTensorVersioned {
	return (*abi.ManagedTensorVersioned)(unsafe.Pointer(C.fickle_versioned(f.c)))
}

// Legacy is its struct of DLPack 0.x, which may be imported again and again.
func (f Fickle) Legacy() *abi.ManagedTensor {
	return (*abi.ManagedTensor)(unsafe.Pointer(C.fickle_legacy(f.c)))
}

// Deleted is how often the deleters were called.
func (f Fickle) Deleted() int64 { return int64(C.fickle_deleted(f.c)) }

// DropDeleter has the deleters be NULL by turns, too.
func (f Fickle) DropDeleter() { C.fickle_drop_deleter(f.c) }

// Close ends the thread and gives the memory back.
func (f Fickle) Close() { C.free_fickle(f.c) }

// Immortal is a float32 tensor of shape 2x3x4 that may be imported any number of
// times, one after the other.
func Immortal() *abi.ManagedTensorVersioned {
	return (*abi.ManagedTensorVersioned)(unsafe.Pointer(C.immortal()))
}

// ImmortalDeleted is how often the deleter of Immortal was called.
func ImmortalDeleted() int64 { return int64(C.immortal_deleted()) }
