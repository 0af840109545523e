//go:build cgo

package main

// #include "dlx.h"
// #include "entry.h"
import "C"

import (
	"context"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/exchange"
)

var tensors = newHandles[*core.Tensor]("tensor")

// setTensor makes a handle of a tensor, if there is no error.
func setTensor(out **C.dlx_tensor, t *core.Tensor, err error) error {
	if err == nil {
		tensors.add(unsafe.Pointer(out), t)
	}
	return err
}

func dtype(t C.dlx_dtype) core.DType {
	return core.DType{Code: typecode.Code(t.code), Bits: uint8(t.bits), Lanes: uint16(t.lanes)}
}

// dims returns the numbers of an array of C, which may be NULL if there are none, or if none are needed. The result is
// the memory of C.
func dims(name string, rank C.int32_t, values *C.int64_t, needed bool) ([]int64, error) {
	switch {
	case rank < 0 || rank > core.MaxRank:
		return nil, core.Errorf(core.ErrLayout, origin, "", "rank is %d; 0 to %d axes are supported", rank, core.MaxRank)
	case values == nil && rank > 0 && needed:
		return nil, invalid("%s is NULL, and rank is %d", name, rank)
	case values == nil:
		return nil, nil
	}
	return unsafe.Slice((*int64)(unsafe.Pointer(values)), rank), nil
}

// layout returns the shape and the strides of a rank. strides is nil for row-major.
func layout(rank C.int32_t, cShape, cStrides *C.int64_t) (shape, strides []int64, err error) {
	if shape, err = dims("shape", rank, cShape, true); err != nil {
		return nil, nil, err
	}
	strides, err = dims("strides", rank, cStrides, false)
	return shape, strides, err
}

// spec reads the description of a tensor.
func spec(s *C.dlx_tensor_spec) (core.Spec, error) {
	if err := required("spec", unsafe.Pointer(s)); err != nil {
		return core.Spec{}, err
	}
	if err := unset(s.reserved[:]...); err != nil {
		return core.Spec{}, err
	}
	if unknown := s.flags &^ (C.DLX_FLAG_READ_ONLY | C.DLX_FLAG_SUB_BYTE_PADDED); unknown != 0 {
		return core.Spec{}, invalid("flags has bits %#x, which cannot be set", unknown)
	}
	shape, strides, err := layout(s.rank, s.shape, s.strides)
	return core.Spec{DType: dtype(s.dtype), Shape: shape, Strides: strides, Flags: core.Flags(s.flags)}, err
}

// newSpec reads the description of a tensor that is to be allocated.
func newSpec(s *C.dlx_tensor_spec) (core.Spec, error) {
	described, err := spec(s)
	if err == nil && (described.Strides != nil || described.Flags != 0) {
		err = invalid("strides and flags of a new tensor must not be set")
	}
	return described, err
}

// allocOptions reads the options of an allocation on d.
func allocOptions(d core.Device, o *C.dlx_alloc_options) (core.AllocOptions, error) {
	if o == nil {
		return core.AllocOptions{}, nil
	}
	if err := unset(o.reserved[:]...); err != nil {
		return core.AllocOptions{}, err
	}
	if o.host_visible != 0 && o.host_visible != 1 {
		return core.AllocOptions{}, invalid("host_visible is %d, and neither 0 nor 1", o.host_visible)
	}
	next, err := devices.getOptional(unsafe.Pointer(o.share_with))
	if err != nil {
		return core.AllocOptions{}, err
	}
	s, err := streams.getOptional(unsafe.Pointer(o.stream))
	if err != nil {
		return core.AllocOptions{}, err
	}
	var options core.AllocOptions
	if next != nil {
		options = exchange.AllocFor(d, next)
	}
	if o.memory_type != 0 {
		options.Type = core.DeviceType(o.memory_type)
	}
	options.HostVisible = options.HostVisible || o.host_visible == 1
	options.Stream = s
	return options, nil
}

//export dlxgo_tensor_alloc
func dlxgo_tensor_alloc(device *C.dlx_device, cSpec *C.dlx_tensor_spec, cOptions *C.dlx_alloc_options, timeout C.int64_t, tensor **C.dlx_tensor, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		d, err := devices.get(unsafe.Pointer(device))
		if err != nil {
			return err
		}
		s, err := newSpec(cSpec)
		if err != nil {
			return err
		}
		options, err := allocOptions(d, cOptions)
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			t, err := core.Empty(ctx, d, s.DType, s.Shape, options)
			return setTensor(tensor, t, err)
		})
	})
}

// lent is memory of the program. It is the Owner of that memory.
type lent struct{ release, context C.uintptr_t }

var _ core.Owner = lent{}

// Free calls the function that the program passed.
func (l lent) Free() {
	if l.release != 0 {
		C.dlx_call_release(l.release, l.context)
	}
}

//export dlxgo_tensor_wrap
func dlxgo_tensor_wrap(data unsafe.Pointer, size, offset C.int64_t, cSpec *C.dlx_tensor_spec, release, releaseContext C.uintptr_t, tensor **C.dlx_tensor, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		s, err := spec(cSpec)
		if err != nil {
			return err
		}
		if size < 0 {
			return core.Errorf(core.ErrLayout, origin, "", "size is %d", size)
		}
		s.Offset = int64(offset)
		t, err := core.Wrap(core.Memory{
			ID:       core.CPU,
			Handle:   uintptr(data),
			Size:     int64(size),
			Owner:    lent{release, releaseContext},
			ReadOnly: s.Flags&core.FlagReadOnly != 0,
		}, s)
		return setTensor(tensor, t, err)
	})
}

//export dlxgo_tensor_view
func dlxgo_tensor_view(tensor *C.dlx_tensor, rank C.int32_t, cShape, cStrides *C.int64_t, offset C.int64_t, view **C.dlx_tensor, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("view", unsafe.Pointer(view)); err != nil {
			return err
		}
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		shape, strides, err := layout(rank, cShape, cStrides)
		if err != nil {
			return err
		}
		v, err := viewOf(t, shape, strides, int64(offset))
		return setTensor(view, v, err)
	})
}

//export dlxgo_tensor_with_lanes
func dlxgo_tensor_with_lanes(tensor *C.dlx_tensor, lanes C.uint16_t, view **C.dlx_tensor, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("view", unsafe.Pointer(view)); err != nil {
			return err
		}
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		v, err := t.WithLanes(uint16(lanes))
		return setTensor(view, v, err)
	})
}

//export dlxgo_tensor_as_type
func dlxgo_tensor_as_type(tensor *C.dlx_tensor, kind *C.dlx_dtype, timeout C.int64_t, result **C.dlx_tensor, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("result", unsafe.Pointer(result)); err != nil {
			return err
		}
		if err := required("dtype", unsafe.Pointer(kind)); err != nil {
			return err
		}
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			converted, err := t.AsType(ctx, dtype(*kind))
			return setTensor(result, converted, err)
		})
	})
}

//export dlxgo_tensor_close
func dlxgo_tensor_close(tensor *C.dlx_tensor, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		t, err := tensors.take(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		return t.Close()
	})
}

//export dlxgo_tensor_get_info
func dlxgo_tensor_get_info(tensor *C.dlx_tensor, info *C.dlx_tensor_info, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("info", unsafe.Pointer(info)); err != nil {
			return err
		}
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		i, err := tensorInfo(t)
		if err == nil {
			*info = i
		}
		return err
	})
}

func tensorInfo(t *core.Tensor) (info C.dlx_tensor_info, err error) {
	err = describe(&info, t)
	return info, err
}

// describe is tensorInfo for a struct that is zero, of which most stays so. After an error, nobody reads it.
func describe(info *C.dlx_tensor_info, t *core.Tensor) error {
	id, of := t.DeviceID(), t.DType()
	info.device = deviceID(id)
	info.dtype = C.dlx_dtype{code: C.uint8_t(of.Code), bits: C.uint8_t(of.Bits), lanes: C.uint16_t(of.Lanes)}
	info.rank = C.int32_t(t.Rank())
	info.flags = C.uint64_t(t.Flags())
	info.elements = C.int64_t(t.NumElements())
	info.bytes = C.int64_t(t.NumBytes())
	info.unfinished = isUnfinished(t)
	l := t.Layout()
	for i := range l.Rank() {
		info.shape[i], info.strides[i] = C.int64_t(l.Dim(i)), C.int64_t(l.Stride(i))
	}
	var data uintptr
	if id.Type.OpaqueHandle() {
		b, err := t.Buffer()
		if err != nil {
			return err
		}
		data = b.Memory().Handle
		info.byte_offset = C.uint64_t(t.Offset())
	} else {
		var err error
		if data, err = t.Address(); err != nil {
			return err
		}
		info.is_address = 1
	}
	*(*uintptr)(unsafe.Pointer(&info.data)) = data
	if id.Type.HostAccessible() {
		info.host_accessible = 1
	}
	return nil
}

// isUnfinished returns 1 if work on the memory of a tensor may be unfinished, or has failed, and otherwise 0.
func isUnfinished(t *core.Tensor) C.int32_t {
	if b, err := t.Buffer(); err == nil && len(b.Pending()) == 0 {
		return 0
	}
	return 1
}
