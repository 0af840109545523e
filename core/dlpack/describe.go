//go:build cgo && !windows

package dlpack

import (
	"cmp"

	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/internal/abi"
)

// Description is a checked copy of what a struct of another library says about a tensor. It
// owns nothing and frees nothing: the struct stays the caller's, and the elements are there
// only as long as nobody calls its deleter. It is for a function that gets structs by the
// million, reads their elements, and keeps none; everybody else wants [Import], which makes
// a tensor that keeps the memory alive.
//
// A Description may be read into again and again, and then costs no allocation for up to
// four axes:
//
//	var d dlpack.Description
//	for m := range structs {
//		if err := d.Read(m, dlpack.ImportOptions{}); err != nil {
//			return err
//		}
//		values, err := dlpack.Elements[float32](&d)
//		...
//		dlpack.Delete(m)
//	}
//
// The zero Description describes nothing: it has no valid type. A Description must not be
// copied, and not be used by other goroutines during Read.
type Description struct {
	tensor core.Tensor
	memory core.Memory
	spec   core.Spec
}

// Read reads a struct, with the checks and the errors of [Import]. Unlike Import it never
// takes ownership of m. If it fails, d is the zero Description.
func (d *Description) Read(m *ManagedTensorVersioned, options ImportOptions) error {
	if d == nil {
		return fail(core.ErrInvalid, "Read", "the Description is nil")
	}
	err := d.read(m, &options)
	if err != nil {
		*d = Description{}
	}
	return err
}

func (d *Description) read(m *ManagedTensorVersioned, o *ImportOptions) error {
	if m == nil {
		return fail(core.ErrInvalid, "Read", "the managed tensor is nil")
	}
	flags := m.Flags
	if err := checkVersion(m.Version, flags, "Read"); err != nil {
		return err
	}
	tensor := m.Tensor
	if err := check(&tensor, "Read", o); err != nil {
		return err
	}
	d.memory.ID, d.memory.Handle, d.memory.Size = place(&tensor, o), tensor.Data, cmp.Or(o.Size, core.UnknownSize)
	d.spec.DType, d.spec.Offset, d.spec.Flags = dtype(&tensor), int64(tensor.ByteOffset), core.Flags(flags)
	d.spec.Shape, d.spec.Strides = arrays(&tensor)
	if err := privateCore.Describe("Read", &d.tensor, &d.memory, &d.spec); err != nil {
		return &core.Error{Backend: "dlpack", Call: "Read", Err: err}
	}
	d.spec = core.Spec{} // it refers to the memory of the struct
	return nil
}

// DType returns the element type.
func (d *Description) DType() core.DType { return d.get().DType() }

// DeviceID returns the place of the memory.
func (d *Description) DeviceID() core.DeviceID { return d.get().DeviceID() }

// Flags returns the flags.
func (d *Description) Flags() core.Flags { return d.get().Flags() }

// Rank returns the number of axes.
func (d *Description) Rank() int { return d.get().Rank() }

// Layout returns a copy of the shape and the strides.
func (d *Description) Layout() core.Layout {
	l := d.get().Layout()
	l, _ = core.NewStridedLayout(l.Shape(), l.Strides()) // was checked
	return l
}

// PutDims is like Layout, but allocates nothing: see [core.Tensor.PutDims].
func (d *Description) PutDims(dst *[8]int64) bool { return d.get().PutDims(dst) }

// Data returns the data pointer, and how many bytes after it the first element lies. On some
// devices the data pointer is a handle and no address: see [core.DeviceType.OpaqueHandle].
func (d *Description) Data() (pointer uintptr, offset int64) {
	if d == nil {
		return 0, 0
	}
	return d.memory.Handle, d.tensor.Offset()
}

// get returns a tensor without memory, nil if d is nil. It changes with the next Read.
func (d *Description) get() *core.Tensor {
	if d == nil {
		return nil
	}
	return &d.tensor
}

// Elements returns the elements of a contiguous tensor in host memory in row-major order,
// without a copy. The slice is valid until the struct is deleted. It may be written to
// unless the tensor is read-only (core.FlagReadOnly). Elements waits for nothing.
//
// Elements returns core.ErrInvalid if d is nil or the zero Description, and core.ErrDType,
// core.ErrDevice and core.ErrLayout as [core.Values] does.
func Elements[T core.Element](d *Description) ([]T, error) {
	switch {
	case !d.DType().Valid():
		return nil, fail(core.ErrInvalid, "Elements", "nothing was read")
	case d.DType() != core.DTypeOf[T]():
		return nil, fail(core.ErrDType, "Elements", "the tensor has %v, not %v", d.DType(), core.DTypeOf[T]())
	case !d.DeviceID().Type.HostAccessible():
		return nil, fail(core.ErrDevice, "Elements", "the host cannot reach memory on %v; OnDevice says if it is the host's", d.DeviceID())
	case d.tensor.IsEmpty():
		return nil, nil
	}
	address, layout := d.memory.Handle+uintptr(d.tensor.Offset()), d.tensor.Layout()
	switch {
	case address%unsafe.Alignof(*new(T)) != 0:
		return nil, fail(core.ErrLayout, "Elements", "the memory is not aligned for %v", d.DType())
	case !layout.IsContiguous():
		return nil, fail(core.ErrLayout, "Elements", "strides %v are not row-major", layout.Strides())
	}
	return unsafe.Slice((*T)(abi.Pointer(address)), layout.NumElements()), nil
}
