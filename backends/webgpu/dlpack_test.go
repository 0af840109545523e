//go:build webgpu && linux && cgo

package webgpu

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/dlpack"
)

// A tensor of DLPack that another library made has a buffer that the device has never seen. Only the program knows that it is a
// buffer of this WGPUDevice, and says so by ImportPointer.
func TestABufferThatComesByDLPackIsImportedByItsHandle(t *testing.T) {
	d := open(t)
	defer closeDevice(t, d)
	b := made(t, d, wgpu.Memory, 64)
	released := make(chan struct{})
	theirs, err := core.Wrap(core.Memory{ID: d.ID(), Handle: uintptr(b), Size: 64, Owner: core.FreeFunc(func() { wgpu.ReleaseBuffer(b); close(released) })},
		core.Spec{DType: core.TypeInt32, Shape: []int64{3}, Offset: 8})
	if err != nil {
		t.Fatal(err)
	}
	m, err := dlpack.Export(theirs)
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	if m.Tensor.Device.Type != 15 || m.Tensor.Data != uintptr(b) || m.Tensor.ByteOffset != 8 {
		t.Errorf("exported as type %d, data %#x and byte_offset %d, want kDLWebGPU (15), the WGPUBuffer %#x and 8", m.Tensor.Device.Type, m.Tensor.Data, m.Tensor.ByteOffset, b)
	}
	came, err := dlpack.Import(m, dlpack.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	host := coretest.Keep(t)(core.FromSlice([]int32{7, 8, 9}))
	if err := d.Copy(t.Context(), nil, came, host); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "ImportPointer") {
		t.Errorf("Copy to a buffer that the device does not know: error %v, want one that names ImportPointer", err)
	}
	buffer, err := came.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	// Its size is not part of DLPack: what the elements need is.
	imported, err := d.(core.PointerImporter).ImportPointer(buffer.Memory().Handle, came.Offset()+came.NumBytes(), core.FreeFunc(func() { came.Close() }))
	if err != nil {
		t.Fatal(err)
	}
	own, err := core.Wrap(imported, core.Spec{DType: came.DType(), Shape: []int64{3}, Offset: came.Offset()})
	if err != nil {
		t.Fatal(err)
	}
	back := coretest.Keep(t)(core.FromSlice(make([]int32, 3)))
	if err := errors.Join(d.Copy(t.Context(), nil, own, host), d.Copy(t.Context(), nil, back, own)); err != nil {
		t.Fatal(err)
	}
	if got, err := core.Values[int32](back); err != nil || !slices.Equal(got, []int32{7, 8, 9}) {
		t.Errorf("the buffer has %v, error %v", got, err)
	}
	select {
	case <-released:
		t.Error("the other library's tensor was released while the import was open")
	default:
	}
	own.Close()
	closeDevice(t, d)
	select { // the library's deleter has come, and its own part follows soon
	case <-released:
	case <-time.After(time.Minute):
		t.Error("the other library's tensor was not released")
	}
}
