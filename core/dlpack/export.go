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

// exportedFlags are the flags that an export keeps. FlagCopied is not one of them: the
// exporter still has a reference, so the consumer is not the only owner.
const exportedFlags = core.FlagReadOnly | core.FlagSubBytePadded

// Export returns a struct of DLPack 1.3 that owns a reference to the memory of t. The caller
// owns the struct, and passes it to one consumer or deletes it with [Delete]. The caller
// also still owns t, and may close it as soon as Export returns. Export does not copy the
// elements, and usually neither allocates nor calls C.
//
// The fields of the struct have these values. strides is not NULL, unless the tensor has no
// axes. data is NULL if there are no elements. For memory of the host, of CUDA and of ROCm, data
// points to the first element and byte_offset is 0, because many consumers do not add
// byte_offset. For memory of any other type, data may be a handle: it is as it was, and
// byte_offset is the offset of the first element. device is that of t. The flags read-only and sub-byte-padded are those of t; only
// [ExportCopied] sets IS_COPIED.
//
// Export does not wait for unfinished writes; see [core.Tensor.WaitReady]. It returns
// ErrInvalid if t is nil, ErrClosed if it is closed, ErrNotSupported for memory of OpenGL,
// which DLPack does not define, and ErrOutOfMemory if no struct can be allocated.
func Export(t *core.Tensor) (*ManagedTensorVersioned, error) {
	n, err := handOver(t, "Export", unsafe.Offsetof(ManagedTensorVersioned{}.Tensor))
	if err != nil {
		return nil, err
	}
	m := &n.versioned
	m.Version = abi.Version{Major: abi.MajorVersion, Minor: abi.MinorVersion}
	m.ManagerCtx = 0
	m.Deleter = deleteVersioned
	m.Flags = uint64(t.Flags() & exportedFlags)
	return m, nil
}

// ExportCopied is like [Export], but sets the flag IS_COPIED and gives t to the consumer.
// The flag means that the consumer is the only owner of the memory and may write to it,
// unless it is read-only. t must be a copy that was made for this consumer. If ExportCopied
// succeeds, it closes t; if it fails, the caller still owns t. It returns ErrInvalid if
// another tensor or export uses the memory, and the errors of Export.
func ExportCopied(t *core.Tensor) (*ManagedTensorVersioned, error) {
	if t != nil {
		if b, err := t.Buffer(); err == nil && !privateCore.Unique(b) {
			Flush() // release exports whose deleter was called
			if !privateCore.Unique(b) {
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

// ExportLegacy is like [Export], but returns the struct of DLPack 0.x, which has no flags.
// It therefore also returns ErrReadOnly if t is read-only, and ErrDType if its elements have
// fewer than 8 bits and are padded.
func ExportLegacy(t *core.Tensor) (*ManagedTensor, error) {
	switch {
	case t == nil: // handOver returns the error
	case t.ReadOnly():
		return nil, fail(core.ErrReadOnly, "ExportLegacy", "the legacy struct cannot mark a tensor as read-only: ask for version 1, or copy the tensor")
	case t.Padded() && t.DType().SubByte():
		return nil, fail(core.ErrDType, "ExportLegacy", "the legacy struct cannot mark %v as padded to bytes: ask for version 1, or pack the elements", t.DType())
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

// handOver takes a free node, adds a reference to the buffer of t for it, and describes t in
// the DLTensor that lies at bytes after the start of the node. It sets every field, because
// an earlier consumer may have changed it. The consumer then owns the node. Errors name
// call.
func handOver(t *core.Tensor, call string, at uintptr) (*node, error) {
	if t == nil {
		return nil, fail(core.ErrInvalid, call, "the tensor is nil")
	}
	if t.DeviceID().Type == core.DeviceGL {
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
	id, dtype, rank := t.DeviceID(), t.DType(), t.Rank()
	data, offset := privateCore.Place(b, t.Offset())
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

// putWideDims writes the shape and strides of a tensor with more axes than a narrow node
// holds. It is a separate function so that handOver needs fewer registers.
//
//go:noinline
func putWideDims(dims unsafe.Pointer, l core.Layout) {
	rank := l.Rank()
	room := unsafe.Slice((*int64)(dims), 2*rank)
	l.AppendShape(room[:0])
	l.AppendStrides(room[:rank])
}

// Delete calls the deleter of a struct that was not passed to a consumer. It does nothing if
// m is nil or its deleter is NULL. m must not be used afterwards.
func Delete(m *ManagedTensorVersioned) {
	if m != nil {
		(*foreign)(m).Free()
	}
}

// DeleteLegacy is like [Delete], for the legacy struct.
func DeleteLegacy(m *ManagedTensor) {
	if m != nil {
		(*foreignLegacy)(m).Free()
	}
}
