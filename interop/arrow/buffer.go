package arrow

import (
	"context"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/dlx-go/dlx/core"
)

// hold is the allocator of a buffer on the memory of a tensor: Arrow frees the memory by it.
type hold struct {
	once   sync.Once
	buffer *core.Buffer
	before func() // called before the memory is released; may be nil
}

var _ memory.Allocator = (*hold)(nil)

// Allocate returns memory of Go. Arrow calls it if a program makes a buffer larger that it got from this package.
func (h *hold) Allocate(size int) []byte { return make([]byte, size) }

// Reallocate returns a copy in Go's memory.
func (h *hold) Reallocate(size int, b []byte) []byte {
	grown := make([]byte, size)
	copy(grown, b)
	h.Free(b)
	return grown
}

// Free releases the memory of the tensor.
func (h *hold) Free([]byte) {
	h.once.Do(func() {
		if h.before != nil {
			h.before()
		}
		h.buffer.Release()
	})
}

// access says how toBuffer treats memory. The zero value is for use by the host: it must be able to access the memory,
// and the last write must be done.
type access struct {
	anywhere bool   // the memory may be on any device, and nothing waits
	before   func() // called before the memory is released, unless toBuffer fails; may be nil
}

// toBuffer returns a buffer on the bytes of t, from the lowest to the highest address. The caller releases it.
func toBuffer(ctx context.Context, call string, t *core.Tensor, how access) (*memory.Buffer, error) {
	id := t.DeviceID()
	if !how.anywhere && !id.Type.HostAccessible() {
		return nil, core.Errorf(core.ErrDevice, backend, call, "the tensor is on %v: move it to the host with exchange.To", id)
	}
	b, err := t.Buffer()
	if err != nil {
		return nil, named(call, err)
	}
	if err := b.Retain(); err != nil {
		return nil, named(call, err)
	}
	data, err := bytesOf(ctx, call, t, how)
	if err != nil {
		b.Release()
		return nil, err
	}
	return memory.NewBufferWithAllocator(data, &hold{buffer: b, before: how.before}), nil
}

// bytesOf returns the bytes of t. On a device that the host cannot access, they must not be read.
func bytesOf(ctx context.Context, call string, t *core.Tensor, how access) ([]byte, error) {
	if !how.anywhere {
		if err := t.WaitReady(ctx); err != nil {
			return nil, err
		}
	}
	if t.IsEmpty() {
		return nil, nil
	}
	address, err := t.Address()
	if err != nil {
		return nil, named(call, err)
	}
	size := itemSize(t.DType())
	if address%uintptr(size) != 0 {
		return nil, core.Errorf(core.ErrLayout, backend, call, "the memory is not aligned for %v: copy the tensor", t.DType())
	}
	low, high := t.Layout().Extent()
	return unsafe.Slice((*byte)(pointer(address+uintptr(low*size))), (high-low)*size), nil
}

// fromBuffer returns a tensor on a buffer, and adds a reference to the buffer. Strides and first count elements.
func fromBuffer(call string, b *memory.Buffer, dtype core.DType, first int64, shape, strides []int64) (*core.Tensor, error) {
	var data []byte
	if b != nil {
		data = b.Bytes()
	}
	size := itemSize(dtype)
	if first < 0 || first > int64(len(data))/size {
		return nil, core.Errorf(core.ErrLayout, backend, call, "offset %d is outside of the buffer, which has %d elements", first, int64(len(data))/size)
	}
	pinned, err := core.FromSlice(data) // memory of Go must stay at its address
	if err != nil {
		return nil, named(call, err)
	}
	address, err := pinned.Address()
	if err != nil {
		pinned.Close()
		return nil, named(call, err)
	}
	if b != nil {
		b.Retain()
	}
	free := core.FreeFunc(func() {
		pinned.Close()
		if b != nil {
			b.Release()
		}
	})
	t, err := core.Wrap(
		core.Memory{ID: core.CPU, Handle: address, Size: int64(len(data)), Owner: free},
		core.Spec{DType: dtype, Shape: shape, Strides: strides, Offset: first * size, Flags: core.FlagReadOnly})
	if err != nil {
		free()
		return nil, named(call, err)
	}
	return t, nil
}

// pointer converts an address of pinned memory, or of memory that is not Go's.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
