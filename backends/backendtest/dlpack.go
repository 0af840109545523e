package backendtest

import (
	"errors"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
)

var dlpackCases = []Case{
	{
		Name: "dlpack/same-memory",
		Rule: "dlpack.h DLTensor: an exported device tensor comes back with its device type and id, memory, offset, type, shape and strides, without a copy; an offset is beside an opaque handle, never added to it",
		run:  caseDLPackSame,
	},
	{
		Name: "dlpack/outlives-the-tensor",
		Rule: "dlpack.h DLManagedTensorVersioned: the memory stays until the deleter is called, even if the tensor is closed",
		run:  caseDLPackOutlives,
	},
	{
		Name: "dlpack/read-only",
		Rule: "dlpack.md: READ_ONLY survives export and import; a legacy export of a read-only tensor fails with ErrReadOnly",
		run:  caseDLPackReadOnly,
	},
	{
		Name: "dlpack/zero-size",
		Rule: "dlpack.md: zero-size tensors are valid and pass through",
		run:  caseDLPackZeroSize,
	},
}

// through sends a tensor through DLPack's C struct and back.
func (e *env) through(t *core.Tensor) *core.Tensor {
	e.Helper()
	m, err := dlpack.Export(t)
	if t.DeviceID().Type == core.DeviceGL {
		e.wantError(err, core.ErrNotSupported, "Export of %v", t)
		e.Skipf("skipped: DLPack has no type for %v", t.DeviceID())
	}
	if errors.Is(err, core.ErrNotSupported) {
		e.Skipf("skipped: this build has no DLPack: %v", err)
	}
	e.check(err, "Export of %v", t)
	if got := (core.DeviceID{Type: core.DeviceType(m.Tensor.Device.Type), Index: m.Tensor.Device.ID}); got != t.DeviceID() {
		e.Errorf("exported as memory of %v, it is of %v", got, t.DeviceID())
	}
	if handle, offset := e.place(t); !t.IsEmpty() && (m.Tensor.Data != handle || int64(m.Tensor.ByteOffset) != offset) {
		e.Errorf("exported with data %#x and byte_offset %d, it lies at %#x + %d", m.Tensor.Data, m.Tensor.ByteOffset, handle, offset)
	}
	back, err := dlpack.Import(m, dlpack.ImportOptions{})
	e.keep(back, err)
	if back.DeviceID() != t.DeviceID() || back.DType() != t.DType() || !back.Layout().Equal(t.Layout()) || back.Flags() != t.Flags() {
		e.Errorf("came back as %v with flags %b, was %v with flags %b", back, back.Flags(), t, t.Flags())
	}
	return back
}

// place is where DLPack says that the first element lies: an address where the type of the device promises one, else
// a handle and an offset beside it.
func (e *env) place(t *core.Tensor) (handle uintptr, offset int64) {
	e.Helper()
	if kind := t.DeviceID().Type; kind.HostAccessible() || kind == core.DeviceCUDA || kind == core.DeviceROCM {
		return e.address(t), 0
	}
	b, err := t.Buffer()
	e.check(err, "Buffer")
	return b.Memory().Handle, t.Offset()
}

func caseDLPackSame(e *env) {
	for _, l := range []strided{{shape: []int64{}}, {shape: []int64{6}}, {shape: []int64{4, 5}, src: []int64{1, 4}}, {shape: []int64{9}, src: []int64{-2}}} {
		m := e.newImage(core.TypeFloat32, 0, l.shape, l.src, 4)
		t := e.onDevice(m)
		back := e.through(t)
		handle, offset := e.place(back)
		if h, o := e.place(t); handle != h || offset != o {
			e.Errorf("%v came back at %#x + %d, was at %#x + %d", t, handle, offset, h, o)
		}
		out := e.newImage(core.TypeFloat32, 0, l.shape, nil, 0)
		host := *out
		host.bytes = append([]byte(nil), out.bytes...)
		e.copy(nil, e.onHost(&host), back)
		if want := out.copied(m); string(host.bytes) != string(want) {
			e.Errorf("%v, read after it came back: %s", t, difference(host.bytes, want))
		}
	}
}

func caseDLPackOutlives(e *env) {
	content := e.pattern(5000)
	t := e.upload(content)
	back := e.through(t)
	_ = t.Close()
	e.upload(e.pattern(5000)) // would overwrite memory that is used again too early
	e.wantBytes(back, content, "what came back, after the tensor was closed")
	e.wantError(e.dev.Close(), core.ErrInvalid, "Close of the device with the import open")
}

func caseDLPackReadOnly(e *env) {
	t, err := e.upload(e.pattern(16)).AsReadOnly()
	back := e.through(e.keep(t, err))
	if !back.ReadOnly() {
		e.Errorf("a read-only tensor came back writable")
	}
	e.wantError(e.dev.Copy(e.ctx, nil, back, e.upload(e.pattern(16))), core.ErrReadOnly, "Copy over what came back")
	_, err = dlpack.ExportLegacy(t)
	e.wantError(err, core.ErrReadOnly, "ExportLegacy")
}

func caseDLPackZeroSize(e *env) {
	t := e.keep(core.Empty(e.ctx, e.dev, core.TypeFloat32, []int64{3, 0, 2}, core.AllocOptions{}))
	back := e.through(t)
	e.copy(nil, back, e.through(t))
}
