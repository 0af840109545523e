package backendkit

import (
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/private"
)

// privateCore is what core does for this module alone.
var privateCore = private.Core.(interface {
	CapabilityOf(pointer any) core.Capabilities
	CheckCapabilities(core.Device) error
	CheckCopy(dst, src *core.Tensor) (same bool, err error)
	CheckCopyOnHost(dst, src *core.Tensor, dstAddress, srcAddress uintptr) (same bool, err error)
	Independent(dst, src []*core.Tensor) bool
	NewHandle(core.HandleType, uintptr) (*core.Handle, error)
	NewIPCHandle(core.Vendor, []byte) (*core.Handle, error)
	OpenTensorsOn(core.DeviceID) (stacks [][]uintptr)
	SmallCopy(dst, src *core.Tensor, limit int64) (to, from *core.Buffer, at, of uintptr, size int64)
})

// CapabilityOf returns the capability of the optional interface I. For example, it
// returns core.CapMapHost for [core.HostMapper]. It returns 0 if I has no capability.
// Code that already has the properties of a device can test their Capabilities for it, instead of
// calling [core.As].
func CapabilityOf[I any]() core.Capabilities { return privateCore.CapabilityOf((*I)(nil)) }

// CheckCapabilities checks that d implements the interface of every capability that it
// declares. It returns core.ErrNotSupported if one is missing, and core.ErrInvalid if d is nil.
// The conformance suite calls it.
func CheckCapabilities(d core.Device) error { return privateCore.CheckCapabilities(d) }

// CheckCopy checks that the elements of src can be copied into dst. Every implementation
// of [core.Device.Copy] calls it first. It returns
//
//   - core.ErrInvalid if a tensor is nil, or core.ErrClosed if one is closed;
//   - core.ErrReadOnly if dst is read-only;
//   - core.ErrDType if the element types differ, or only one tensor is padded;
//   - core.ErrLayout if the shapes differ, dst repeats elements, or the tensors overlap, which
//     means that they share bytes but are not the same elements. To copy between
//     overlapping tensors, copy through a third one.
//
// Tensors may share bytes although their addresses or handles differ. Examples are
// device memory and the host's view of it, host memory that is mapped into two devices,
// and memory that was exported and imported again. CheckCopy compares everything that both
// tensors have of these:
//
//   - the buffer that their memory was made from ([core.Buffer.OrderWith]);
//   - the address or handle on one device;
//   - the address on the host ([core.Memory.Host]);
//   - the imported file ([core.Memory.Backing]).
//
// It cannot detect an overlap of tensors that have none of these in common. A program that
// maps one file twice must therefore set Backing in the Memory of both.
//
// Within one object or address space, CheckCopy compares the ranges of bytes from the
// first to the last element. It therefore also refuses interleaved views of one object,
// such as the even and the odd columns of a matrix.
//
// If same is true, the tensors are the same elements and no bytes need to be copied. One
// of them may still have work that is not recorded on the other; call SubmitSame of
// package stream to order that work.
func CheckCopy(dst, src *core.Tensor) (same bool, err error) { return privateCore.CheckCopy(dst, src) }

// SmallCopy prepares the most common copy by the host at the least cost: both tensors are contiguous and have at most
// limit bytes in different memory of the host, on which there is no work, and of which this process knows no other
// address. It holds both buffers, which the caller releases after the copy, and returns the addresses of the first
// elements and the number of bytes. For every other copy, also one that fails or has no elements, it holds nothing
// and returns 0 bytes. The caller then calls [CheckCopy].
func SmallCopy(dst, src *core.Tensor, limit int64) (to, from *core.Buffer, at, of uintptr, size int64) {
	return privateCore.SmallCopy(dst, src, limit)
}

// CheckCopyOnHost is like [CheckCopy], but compares the tensors only by their addresses on
// the host. A device calls it after CheckCopy for memory of other libraries whose host
// address only the device knows. dstAddress and srcAddress are the addresses of the
// memory; the first elements lie dst.Offset and src.Offset bytes after them. An address of
// 0 means unknown; CheckCopyOnHost then returns false and no error.
func CheckCopyOnHost(dst, src *core.Tensor, dstAddress, srcAddress uintptr) (same bool, err error) {
	return privateCore.CheckCopyOnHost(dst, src, dstAddress, srcAddress)
}

// Independent reports whether the copies of src[i] into dst[i] can be made in any order, or
// at once. That is so if no tensor of dst shares memory with a tensor of another copy. The
// lists have the same length, and each pair has passed [CheckCopy]. Implementations of
// [core.BatchCopier] call Independent, and make dependent copies one after the other.
//
// Independent compares what CheckCopy compares. Of each tensor it compares the range of bytes
// from the first to the last element, and says no if it is in doubt.
func Independent(dst, src []*core.Tensor) bool { return privateCore.Independent(dst, src) }

// CheckFileRead checks the arguments of [core.DeviceFile.ReadAt] for a file of the device id. Every
// implementation calls it first. It returns
//
//   - core.ErrInvalid if dst is nil or offset is negative, and core.ErrClosed if dst is closed;
//   - core.ErrDevice if dst does not lie in the device's own memory;
//   - core.ErrReadOnly if dst is read-only, and core.ErrLayout if it is not contiguous.
func CheckFileRead(id core.DeviceID, dst *core.Tensor, offset int64) error {
	fail := func(sentinel error, format string, args ...any) error {
		return core.Errorf(sentinel, id.Type.BackendName(), "ReadAt", format, args...)
	}
	if dst == nil {
		return fail(core.ErrInvalid, "dst is nil")
	}
	b, err := dst.Buffer()
	if err != nil {
		return err
	}
	switch m := b.Memory(); {
	case offset < 0:
		return fail(core.ErrInvalid, "offset is %d", offset)
	case m.ID != id:
		return fail(core.ErrDevice, "%v does not lie in the own memory of %v", dst, id)
	case dst.ReadOnly():
		return fail(core.ErrReadOnly, "dst may only be read")
	case !dst.Layout().IsContiguous():
		return fail(core.ErrLayout, "dst is not contiguous: strides %v", dst.Layout().Strides())
	}
	return nil
}
