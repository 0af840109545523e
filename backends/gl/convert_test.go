//go:build gl && linux && cgo

package gl

import (
	"bytes"
	"errors"
	"testing"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/core"
)

// toPlanes converts the pixels of src to the planes of dst on a device.
func toPlanes(t *testing.T, d core.Device, dst, src *core.Tensor) error {
	t.Helper()
	scaling := core.Scaling{Scale: []float32{0.5, -3.7, 1}, Offset: []float32{0.1, 0.2, 0.3}}
	return d.(core.Converter).ConvertOn(t.Context(), nil, dst, keep(t)(src.Transpose()), scaling)
}

// content returns the bytes of a tensor.
func content(t *testing.T, d core.Device, x *core.Tensor) []byte {
	t.Helper()
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	return get(t, d, keep(t)(core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{x.NumBytes()}})))
}

// Each call of a conversion that fails is the error of the conversion, and the next one succeeds.
func TestEachCallOfAConversionMayFail(t *testing.T) {
	d := openAs(t, asItIs)
	t.Cleanup(func() { closeDevice(t, d) })
	raw := row(t, d, 300, core.AllocOptions{})
	put(t, d, raw, bytes.Repeat([]byte{1, 200, 7}, 100))
	src := keep(t)(raw.Reshape(100, 3))
	dst := keep(t)(core.Empty(t.Context(), d, core.TypeFloat32, []int64{3, 100}, core.AllocOptions{}))
	if err := toPlanes(t, d, dst, src); err != nil {
		t.Fatal(err)
	}
	want, own := content(t, d, dst), d.driver.getError
	for n := 1; ; n++ {
		left := n
		d.driver.getError = func() uint32 {
			code := own()
			if left--; left == 0 {
				return gl.OUT_OF_MEMORY
			}
			return code
		}
		err := toPlanes(t, d, dst, src)
		d.driver.getError = own
		if left > 0 && err == nil && n > 1 {
			return
		}
		var typed *core.Error
		if !errors.Is(err, core.ErrOutOfMemory) || !errors.As(err, &typed) || typed.Backend != "gl" || typed.Call != "glDispatchCompute" {
			t.Fatalf("call %d: %v", n, err)
		}
		if err := toPlanes(t, d, dst, src); err != nil || !bytes.Equal(content(t, d, dst), want) {
			t.Errorf("after call %d failed: %v, and the planes are right: %v", n, err, bytes.Equal(content(t, d, dst), want))
		}
	}
}

// A shader that does not compile is an error of the conversion, and nothing is left.
func TestAShaderThatIsRefused(t *testing.T) {
	d := openAs(t, asItIs)
	t.Cleanup(func() { closeDevice(t, d) })
	var err error
	run := func() {
		_, err = d.programs.program(shader{name: "wrong", source: func() string { return "#version 450\nno\n" }})
	}
	if failed := d.do(t.Context(), "glCreateShaderProgramv", run); failed != nil || !errors.Is(err, core.ErrNotSupported) || len(d.programs) != 0 {
		t.Errorf("%v, %v, and %d programs are there", failed, err, len(d.programs))
	}
}

// Shaders use whole words. A buffer of the renderer may end in the middle of one.
func TestConversionAtTheEndOfAnOddBuffer(t *testing.T) {
	d, run := wrapped(t)
	t.Cleanup(func() { closeDevice(t, d) })
	imported := func(size int) *core.Tensor {
		m, err := d.(core.PointerImporter).ImportPointer(uintptr(makeBuffer(t, run, make([]byte, size), 0)), int64(size), nil)
		if err != nil {
			t.Fatal(err)
		}
		return keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{int64(size) / 3, 3}}))
	}
	dst := keep(t)(core.Empty(t.Context(), d, core.TypeFloat32, []int64{3, 33}, core.AllocOptions{}))
	if err := toPlanes(t, d, dst, imported(99)); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("99 bytes: %v", err)
	}
	if err := toPlanes(t, d, dst, keep(t)(imported(102).Slice(0, 0, 33, 1))); err != nil {
		t.Errorf("the first 99 of 102 bytes, whose last word is not touched: %v", err)
	}
}
