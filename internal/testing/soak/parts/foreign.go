//go:build cgo && !windows

package parts

// #cgo CFLAGS: -std=c11 -D_DEFAULT_SOURCE -I${SRCDIR}/../../../../core/internal/abi
// #include <stdlib.h>
// #include "foreign.h"
import "C"

import (
	"sync/atomic"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/internal/live"
)

// HasC reports whether memory of C can be had: [Malloc] and [Foreign].
const HasC = true

func init() {
	live.Count("soak.Foreign", func() int64 { return int64(C.live_managed()) })
	live.Count("soak.Malloc", liveBlocks.Load)
}

var liveBlocks atomic.Int64

// Malloc is memory of C's allocator that begins skip bytes into a block. Its tensors
// free it.
func Malloc(skip, size int64) (core.Memory, error) {
	p := uintptr(C.malloc(C.size_t(skip + size + 1)))
	if p == 0 {
		return core.Memory{}, core.Errorf(core.ErrOutOfMemory, "soak", "malloc", "%d bytes", size)
	}
	liveBlocks.Add(1)
	return core.Memory{ID: core.CPU, Handle: p + uintptr(skip), Size: size, Owner: core.FreeFunc(func() {
		C.free(pointer(p))
		liveBlocks.Add(-1)
	})}, nil
}

// Foreign makes a tensor of another library, fills its memory, and takes it by
// DLPack. The memory has size bytes; s.Offset is where in it the first element lies,
// of which byteOffset bytes are given as byte_offset. Nil strides are NULL.
func Foreign(legacy bool, size, byteOffset int64, fill []byte, s core.Spec) (*core.Tensor, error) {
	memory := uintptr(C.malloc(C.size_t(size + 1)))
	if memory == 0 {
		return nil, core.Errorf(core.ErrOutOfMemory, "soak", "malloc", "%d bytes", size)
	}
	copy(unsafe.Slice((*byte)(pointer(memory)), size), fill)
	dims := append(append([]int64{}, s.Shape...), s.Strides...)
	dims = append(dims, make([]int64, 2*len(s.Shape)-len(dims)+1)...) // never empty
	strided := C.int(0)
	if s.Strides != nil {
		strided = 1
	}
	kind := C.int(0)
	if legacy {
		kind = 1
	}
	m := C.new_managed(kind, pointer(memory), (*C.int64_t)(unsafe.Pointer(&dims[0])), C.int(len(s.Shape)), strided)
	if m == nil {
		C.free(pointer(memory))
		return nil, core.Errorf(core.ErrOutOfMemory, "soak", "malloc", "a managed tensor")
	}
	old, versioned := (*dlpack.ManagedTensor)(m), (*dlpack.ManagedTensorVersioned)(m)
	t := &versioned.Tensor
	if legacy {
		t = &old.Tensor
	} else {
		versioned.Version.Major, versioned.Version.Minor = 1, 1
		versioned.Flags = uint64(s.Flags)
	}
	t.Data, t.ByteOffset = memory+uintptr(s.Offset-byteOffset), uint64(byteOffset)
	t.Device.Type = int32(core.DeviceCPU)
	t.DType.Code, t.DType.Bits, t.DType.Lanes = uint8(s.DType.Code), s.DType.Bits, s.DType.Lanes
	if product(s.Shape) == 0 {
		t.Data, t.ByteOffset = 0, 0
	}
	if legacy {
		return dlpack.ImportLegacy(old, dlpack.ImportOptions{})
	}
	return dlpack.Import(versioned, dlpack.ImportOptions{})
}

func product(shape []int64) int64 {
	n := int64(1)
	for _, extent := range shape {
		n *= extent
	}
	return n
}
