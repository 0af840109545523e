//go:build cgo && !windows

package dlpack

// #include "node.h"
import "C"

import (
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/internal/abi"
)

// The C deleters of nodes.
var (
	deleteVersioned = uintptr(unsafe.Pointer(C.dlx_delete_versioned))
	deleteLegacy    = uintptr(unsafe.Pointer(C.dlx_delete_legacy))
)

// carried are the flags that hold for every share of the memory. FlagCopied does
// not: the exporter keeps a share, so the consumer is not the only owner.
const carried = core.FlagReadOnly | core.FlagSubBytePadded

// Export returns a share of t's memory as a struct of DLPack 1.3, which the
// caller owns: it hands it to one consumer, or deletes it. t stays the caller's
// and may be closed at once. Nothing is copied, allocated or called in C.
//
// The struct has strides whenever it has axes, and NULL data if it has no
// elements. For memory with an address, data points at the first element and
// byte_offset is 0, since many consumers forget to add it; an opaque handle is
// passed as it is, with the offset beside it. Device type and index are t's. The
// flags for read-only and for padded sub-byte elements are carried; IS_COPIED is
// only set by [ExportCopied].
//
// It does not wait for unfinished writes: see [core.Tensor.WaitReady]. It fails
// with ErrInvalid if t is nil, ErrClosed, or ErrOutOfMemory if there is no room
// for more structs.
func Export(t *core.Tensor) (*ManagedTensorVersioned, error) {
	n, err := handOver(t, "Export", unsafe.Offsetof(ManagedTensorVersioned{}.Tensor))
	if err != nil {
		return nil, err
	}
	m := &n.versioned
	m.Version = abi.Version{Major: abi.MajorVersion, Minor: abi.MinorVersion}
	m.ManagerCtx = 0
	m.Deleter = deleteVersioned
	m.Flags = uint64(t.Flags() & carried)
	return m, nil
}

// ExportCopied gives t away: the struct is flagged IS_COPIED, which tells the
// consumer that it alone owns the memory and may write to it, unless it is read-only. t must have come
// from a copy made for this consumer and be the only tensor on its memory, else
// the call fails with ErrInvalid; otherwise the errors are those of [Export].
// On success t is closed, on failure it stays the caller's.
func ExportCopied(t *core.Tensor) (*ManagedTensorVersioned, error) {
	if t != nil {
		if b, err := t.Buffer(); err == nil && !b.Unique() {
			Flush() // an export that was deleted just now does not count
			if !b.Unique() {
				return nil, fail(core.ErrInvalid, "ExportCopied", "other tensors or exports share the memory: copy the tensor first")
			}
		}
	}
	m, err := Export(t)
	if err != nil {
		return nil, err
	}
	m.Flags |= abi.FlagCopied
	return m, t.Close()
}

// ExportLegacy is [Export] to the struct of DLPack 0.x, which has no flags. So it
// also fails with ErrReadOnly if t is read-only, and with ErrDType if it has padded
// sub-byte elements.
func ExportLegacy(t *core.Tensor) (*ManagedTensor, error) {
	switch {
	case t == nil: // handOver says so
	case t.ReadOnly():
		return nil, fail(core.ErrReadOnly, "ExportLegacy", "the legacy struct cannot say that a tensor may only be read: ask for version 1, or copy it")
	case t.Padded() && t.DType().SubByte():
		return nil, fail(core.ErrDType, "ExportLegacy", "the legacy struct cannot say that %v is padded to bytes: ask for version 1, or pack it", t.DType())
	}
	n, err := handOver(t, "ExportLegacy", unsafe.Offsetof(ManagedTensor{}.Tensor))
	if err != nil {
		return nil, err
	}
	m := n.legacy()
	m.ManagerCtx = 0
	m.Deleter = deleteLegacy
	return m, nil
}

// handOver takes a node and a share of t's buffer for it, and describes t in the
// DLTensor that lies so many bytes into the node. Every field is written anew: a
// consumer may have changed them. The node is the consumer's from then on.
func handOver(t *core.Tensor, call string, at uintptr) (*node, error) {
	if t == nil {
		return nil, fail(core.ErrInvalid, call, "the tensor is nil")
	}
	if t.ID().Type == core.DeviceGL {
		return nil, fail(core.ErrNotSupported, call, "DLPack has no device type for OpenGL: move the tensor to another device first")
	}
	b, err := t.Buffer()
	if err != nil {
		return nil, err
	}
	if err := b.Retain(); err != nil {
		return nil, err
	}
	h := shardFor(t.Rank())
	s := h.take()
	if s == nil {
		if s, err = h.refill(); err != nil {
			b.Release()
			return nil, err
		}
	}
	s.buffer = b
	n := s.node
	d := (*abi.Tensor)(unsafe.Add(unsafe.Pointer(n), at))
	id, dtype, rank := t.ID(), t.DType(), t.Rank()
	data, offset := b.Memory().Handle, t.Offset()
	if !id.Type.OpaqueHandle() {
		data, offset = data+uintptr(offset), 0
	}
	dims := n.dims()
	if !t.PutDims((*[2 * narrowRank]int64)(dims)) {
		putWideDims(dims, t.Layout())
	}
	if t.IsEmpty() {
		data = 0
	}
	d.Data = data
	d.Device = abi.Device{Type: int32(id.Type), ID: id.Index}
	d.NDim = int32(rank)
	d.DType = abi.DataType{Code: uint8(dtype.Code), Bits: dtype.Bits, Lanes: dtype.Lanes}
	d.Shape = uintptr(dims)
	d.Strides = uintptr(dims) + uintptr(rank)*unsafe.Sizeof(int64(0))
	d.ByteOffset = uint64(offset)
	if raceDetector {
		s.handed.Store(true)
	}
	n.out = 1
	return n, nil
}

// putWideDims writes the dims that do not fit into a narrow node. It stands apart
// to keep the registers of handOver free.
//
//go:noinline
func putWideDims(dims unsafe.Pointer, l core.Layout) {
	rank := l.Rank()
	room := unsafe.Slice((*int64)(dims), 2*rank)
	l.AppendShape(room[:0])
	l.AppendStrides(room[:rank])
}

// Delete calls m's deleter, for a struct that no consumer took. It does nothing
// if m is nil or its deleter NULL; m must not be used after.
func Delete(m *ManagedTensorVersioned) {
	if m != nil {
		(*foreign)(m).Free()
	}
}

// DeleteLegacy is [Delete] for the legacy struct.
func DeleteLegacy(m *ManagedTensor) {
	if m != nil {
		(*foreignLegacy)(m).Free()
	}
}
