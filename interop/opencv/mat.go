//go:build cgo

package opencv

// #cgo pkg-config: opencv4
// #cgo CXXFLAGS: -std=c++11
// #include "mat.h"
import "C"

import (
	"context"
	"math"
	"runtime"
	"unsafe"

	"gocv.io/x/gocv"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/internal/live"
)

const backend = "opencv"

// liveMats counts the headers that tensors hold.
var liveMats = live.NewCounter("opencv.Mat")

// The types of OpenCV's depths, in their order.
var depths = [...]core.DType{
	core.TypeUint8, core.TypeInt8, core.TypeUint16, core.TypeInt16, core.TypeInt32, core.TypeFloat32, core.TypeFloat64, core.TypeFloat16,
}

// FromMat returns a tensor on the memory of a matrix, without a copy. Its shape is that of the matrix, followed by
// the number of channels if there are several; its strides are the matrix's, which may be a region of another one.
// The tensor and the matrix share what is written to either. The tensor holds a reference to the memory: the program
// may close the matrix at once. The caller closes the tensor.
//
// FromMat returns core.ErrInvalid if the matrix is nil, closed or empty, or if its memory is not OpenCV's, such as that
// of gocv.NewMatFromBytes: make a tensor of the bytes, or Clone the matrix. It returns core.ErrDType and core.ErrLayout
// for matrices that OpenCV does not make, and core.ErrOutOfMemory.
func FromMat(m *gocv.Mat) (*core.Tensor, error) {
	const call = "FromMat"
	var p unsafe.Pointer
	if m != nil {
		p = unsafe.Pointer(m.Ptr())
	}
	if p == nil {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "the matrix is nil or closed")
	}
	defer runtime.KeepAlive(m)
	var d C.struct_dlxcv_mat
	C.dlxcv_describe(p, &d)
	switch {
	case d.depth < 0 || int(d.depth) >= len(depths):
		return nil, core.Errorf(core.ErrDType, backend, call, "unknown depth %d", d.depth)
	case d.rank < 0 || d.rank > C.dlxcv_rank || d.channels < 1:
		return nil, core.Errorf(core.ErrLayout, backend, call, "%d axes of %d channels", d.rank, d.channels)
	case d.data == 0:
		return nil, core.Errorf(core.ErrInvalid, backend, call, "the matrix is empty")
	case d.counted == 0:
		return nil, core.Errorf(core.ErrInvalid, backend, call, "OpenCV does not own the memory of the matrix: make a tensor of that memory, or Clone the matrix")
	}
	s := core.Spec{DType: depths[d.depth]}
	size := int64(s.DType.Bits / 8)
	for i := range int(d.rank) {
		step := int64(d.steps[i])
		if step < 0 || step%size != 0 {
			return nil, core.Errorf(core.ErrLayout, backend, call, "axis %d: a step of %d bytes, which are not whole elements of %v", i, d.steps[i], s.DType)
		}
		s.Shape, s.Strides = append(s.Shape, int64(d.shape[i])), append(s.Strides, step/size)
	}
	if d.channels > 1 {
		s.Shape, s.Strides = append(s.Shape, int64(d.channels)), append(s.Strides, 1)
	}
	header := C.dlxcv_share(p)
	if header == nil {
		return nil, core.Errorf(core.ErrOutOfMemory, backend, call, "no memory for a header")
	}
	liveMats.Add(1)
	memory := core.Memory{ID: core.CPU, Handle: uintptr(d.data), Size: int64(d.end - d.data), Owner: core.FreeFunc(func() {
		C.dlxcv_free(header)
		liveMats.Add(-1)
	})}
	t, err := core.Wrap(memory, s)
	if err != nil {
		memory.Free()
	}
	return t, err
}

// ToMat returns a matrix of one channel on the memory of a tensor in host memory, without a copy. It has the shape of
// the tensor; a tensor with one axis becomes a column. The tensor may have gaps, but OpenCV has no negative strides,
// and expects the axes in the order of their strides. ToMat blocks until all work on the tensor is done.
//
// The caller closes the matrix, and still owns the tensor, which it may close at once: the matrix and all that share
// its memory hold a reference.
//
// ToMat returns core.ErrInvalid if the tensor is nil or empty, core.ErrDevice if it is not in host memory,
// core.ErrDType for types that OpenCV lacks, core.ErrLayout for strides that it lacks, core.ErrReadOnly for a read-only
// tensor, since every matrix can be written, core.ErrClosed, the error of the last write, and ctx's error.
func ToMat(ctx context.Context, t *core.Tensor) (gocv.Mat, error) {
	return toMat(ctx, "ToMat", t, false)
}

// ToImage is like ToMat, but the last axis of the tensor becomes the channels, of which OpenCV has 512 at most. The
// channels of an element must be adjacent.
func ToImage(ctx context.Context, t *core.Tensor) (gocv.Mat, error) {
	return toMat(ctx, "ToImage", t, true)
}

func toMat(ctx context.Context, call string, t *core.Tensor, image bool) (gocv.Mat, error) {
	if t == nil {
		return gocv.Mat{}, core.Errorf(core.ErrInvalid, backend, call, "the tensor is nil")
	}
	depth := depthOf(t.DType())
	switch {
	case !t.DeviceID().Type.HostAccessible():
		return gocv.Mat{}, core.Errorf(core.ErrDevice, backend, call, "the tensor is on %v: move it to the host by exchange.To", t.DeviceID())
	case depth < 0:
		return gocv.Mat{}, core.Errorf(core.ErrDType, backend, call, "OpenCV has no elements of type %v", t.DType())
	case t.ReadOnly():
		return gocv.Mat{}, core.Errorf(core.ErrReadOnly, backend, call, "a matrix can be written, and the tensor is read-only: Clone it")
	case t.IsEmpty():
		return gocv.Mat{}, core.Errorf(core.ErrInvalid, backend, call, "the tensor has no elements")
	}
	shape, steps, channels, err := axes(call, t, image)
	if err != nil {
		return gocv.Mat{}, err
	}
	if err := t.WaitIdle(ctx); err != nil { // the program may write to the matrix
		return gocv.Mat{}, err
	}
	managed, err := dlpack.Export(t)
	if err != nil {
		return gocv.Mat{}, err
	}
	address, err := t.Address()
	if err != nil {
		dlpack.Delete(managed)
		return gocv.Mat{}, err
	}
	m := gocv.NewMat()
	if C.dlxcv_lend(unsafe.Pointer(m.Ptr()), C.int(len(shape)), &shape[0], &steps[0], C.int(depth), C.int(channels), C.uintptr_t(address), unsafe.Pointer(managed)) == 0 {
		dlpack.Delete(managed)
		err := core.Errorf(core.ErrLayout, backend, call, "OpenCV refuses a matrix of the layout %v", t.Layout())
		_ = m.Close() // always nil
		return gocv.Mat{}, err
	}
	return m, nil
}

func depthOf(t core.DType) int {
	for depth, d := range depths {
		if d == t {
			return depth
		}
	}
	return -1
}

// axes returns the shape, the steps in bytes and the channels of the matrix.
func axes(call string, t *core.Tensor, image bool) (shape []C.int, steps []C.size_t, channels int64, err error) {
	l, size := t.Layout(), int64(t.DType().Bits/8)
	rank := l.Rank()
	channels = 1
	if image {
		if rank < 2 || l.Dim(rank-1) > 512 || l.Dim(rank-1) > 1 && l.Stride(rank-1) != 1 {
			return nil, nil, 0, core.Errorf(core.ErrLayout, backend, call, "the last axis of %v is not one of at most 512 adjacent channels", l)
		}
		rank--
		channels = l.Dim(rank)
	}
	if rank < 1 || rank > C.dlxcv_rank {
		return nil, nil, 0, core.Errorf(core.ErrLayout, backend, call, "a matrix has from 1 to %d axes; the tensor is %v", C.dlxcv_rank, l)
	}
	element := channels * size
	inner := element // bytes that the axes inside of the present one take
	shape, steps = make([]C.int, rank), make([]C.size_t, rank)
	for i := rank - 1; i >= 0; i-- {
		n, step := l.Dim(i), inner
		if n > 1 {
			step = l.Stride(i) * size
		}
		if n > math.MaxInt32 || step < inner || step%element != 0 && i == rank-1 || step > math.MaxInt64/n {
			return nil, nil, 0, core.Errorf(core.ErrLayout, backend, call, "axis %d of %v: OpenCV needs a stride of at least %d elements", i, l, inner/size)
		}
		if i == rank-1 && step != element && rank > 1 {
			return nil, nil, 0, core.Errorf(core.ErrLayout, backend, call, "the elements of the last axis of %v are not adjacent", l)
		}
		shape[i], steps[i] = C.int(n), C.size_t(step)
		inner = step * n
	}
	if rank == 1 { // a column, whose rows may have gaps
		return []C.int{shape[0], 1}, []C.size_t{steps[0], C.size_t(element)}, channels, nil
	}
	return shape, steps, channels, nil
}
