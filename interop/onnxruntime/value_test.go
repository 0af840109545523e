//go:build cgo && unix

package onnxruntime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/float"
	"github.com/dlx-go/dlx/stream"
	ort "github.com/yalue/onnxruntime_go"
)

var ctx = context.Background()

// session makes a session of a model, which is destroyed at the end of the test.
func session(t testing.TB, model []byte, inputs, outputs []string) *ort.DynamicAdvancedSession {
	t.Helper()
	options, err := ort.NewSessionOptions()
	if err != nil {
		t.Fatal(err)
	}
	defer options.Destroy()
	if err := options.SetLogSeverityLevel(ort.LoggingLevelFatal); err != nil { // errors are returned, too
		t.Fatal(err)
	}
	s, err := ort.NewDynamicAdvancedSessionWithONNXData(model, inputs, outputs, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Destroy() })
	return s
}

// ONNX Runtime's own function says that the value lies where the tensor lies, in both directions.
func TestSameAddress(t *testing.T) {
	lib := open(t)
	keep := coretest.Keep(t)
	for _, of := range []*core.Tensor{
		keep(core.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)),
		keep(core.FromSlice([]bool{true, false})),
		keep(core.FromSlice([]float64{7}, []int64{}...)),
		keep(core.FromSlice([]float.BFloat16{1, 2}, 2, 1)),
		keep(core.FromSlice([]float.Float16{1}, 1)),
		scalar(t),
	} {
		v, err := lib.Input(ctx, of)
		if err != nil {
			t.Fatalf("%v: %v", of, err)
		}
		address, err := of.Address()
		if err != nil {
			t.Fatal(err)
		}
		if at, place, id, err := lib.Located(v); at != address || place != "Cpu" || id != 0 || err != nil {
			t.Errorf("%v: %#x in %s:%d, %v; want %#x", of, at, place, id, err, address)
		}
		if !slices.Equal(v.GetShape(), of.Shape()) || v.GetONNXType() != ort.ONNXTypeTensor {
			t.Errorf("%v: shape %v, type %v", of, v.GetShape(), v.GetONNXType())
		}
		back := keep(lib.Tensor(v))
		if at, err := back.Address(); at != address || err != nil || back.DType() != of.DType() || !back.Layout().Equal(of.Layout()) {
			t.Errorf("%v came back as %v at %#x, %v", of, back, at, err)
		}
	}
}

func scalar(t *testing.T) *core.Tensor {
	row, err := core.FromSlice([]int32{42})
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	return coretest.Keep(t)(row.Reshape())
}

// Every type that both have keeps its identity, by ONNX Runtime's word.
func TestTypes(t *testing.T) {
	lib := open(t)
	var refused []string // by ONNX Runtime
	for theirs := ort.TensorElementDataType(ort.TensorElementDataTypeFloat); theirs <= ort.TensorElementDataTypeFloat8E8M0; theirs++ {
		raw := make([]byte, 64)
		v, err := ort.NewCustomDataTensor(ort.NewShape(4), raw, theirs)
		if err != nil {
			refused = append(refused, theirs.String())
			continue
		}
		x, err := lib.Tensor(v)
		switch theirs {
		case ort.TensorElementDataTypeUint2, ort.TensorElementDataTypeInt2:
			coretest.WantError(t, err, core.ErrDType, theirs.String())
			_ = v.Destroy()
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", theirs, err)
			_ = v.Destroy()
			continue
		}
		if at, _ := x.Address(); at != uintptr(unsafe.Pointer(&raw[0])) {
			t.Errorf("%v: copied", theirs)
		}
		again, err := lib.Input(ctx, x)
		if err != nil {
			t.Errorf("%v: %v", x, err)
		} else if uint32(again.DataType()) != uint32(theirs) {
			t.Errorf("%v: type %d became %d", x, theirs, again.DataType())
		} else {
			_ = again.Destroy()
		}
		x.Close()
	}
	want := []ort.TensorElementDataType{ort.TensorElementDataTypeString, ort.TensorElementDataTypeComplex64, ort.TensorElementDataTypeComplex128}
	for i := range want {
		if i >= len(refused) || refused[i] != want[i].String() || len(refused) != len(want) {
			t.Fatalf("ONNX Runtime refuses %v, want %v", refused, want)
		}
	}
}

// Values work in a session of onnxruntime_go without a binding; its own values become tensors.
func TestSession(t *testing.T) {
	lib := open(t)
	s := session(t, doubling(ort.TensorElementDataTypeFloat, -1), []string{"x"}, []string{"y"})
	keep := coretest.Keep(t)
	data := []float32{1, 2, 3}
	in, err := lib.Input(ctx, keep(core.FromSlice(data)))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Destroy()
	result := make([]float32, 3)
	out, err := lib.Output(ctx, keep(core.FromSlice(result)))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Destroy()
	if err := s.Run([]ort.Value{in}, []ort.Value{out}); err != nil || !slices.Equal(result, []float32{2, 4, 6}) {
		t.Fatal(result, err)
	}
	data[0] = 10 // the session sees the slice itself
	if err := s.Run([]ort.Value{in}, []ort.Value{out}); err != nil || result[0] != 20 {
		t.Fatal(result, err)
	}

	values := []ort.Value{nil} // onnxruntime_go makes one
	if err := s.Run([]ort.Value{in}, values); err != nil {
		t.Fatal(err)
	}
	theirs := values[0].(*ort.Tensor[float32]).GetData()
	y := keep(lib.Tensor(values[0]))
	got, err := core.Values[float32](y)
	if err != nil || !slices.Equal(got, []float32{20, 4, 6}) || &got[0] != &theirs[0] {
		t.Fatal(got, err)
	}

	in.ZeroContents()
	if data[2] != 0 {
		t.Error(data)
	}
}

// A value keeps the memory of a tensor that the program closes; the memory is freed with the value.
func TestKeepsMemory(t *testing.T) {
	lib := open(t)
	s := session(t, doubling(ort.TensorElementDataTypeFloat, -1), []string{"x"}, []string{"y"})
	memory := []float32{1, 2}
	freed := 0
	x, err := core.Wrap(core.Memory{ID: core.CPU, Handle: uintptr(unsafe.Pointer(&memory[0])), Size: 8,
		Owner: ownerFunc(func() { freed++ })}, core.Spec{DType: core.TypeFloat32, Shape: []int64{2}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := lib.Input(ctx, x)
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	values := []ort.Value{nil}
	if err := s.Run([]ort.Value{v}, values); err != nil || freed != 0 {
		t.Fatal(err, freed)
	}
	if got := values[0].(*ort.Tensor[float32]).GetData(); got[1] != 4 {
		t.Error(got)
	}
	_ = values[0].Destroy()
	coretest.WantError(t, lib.Close(), core.ErrInvalid, "Close with an open value")
	_ = v.Destroy()
	_ = v.Destroy()
	if freed != 1 {
		t.Errorf("freed %d times", freed)
	}
	_, err = lib.Tensor(v)
	coretest.WantError(t, err, core.ErrClosed, "a tensor of a destroyed value")
}

type ownerFunc func()

func (f ownerFunc) Free() { f() }

func TestMisuse(t *testing.T) {
	lib := open(t)
	keep := coretest.Keep(t)
	x := keep(core.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
	closed := keep(core.FromSlice([]float32{1}))
	closed.Close()
	failedWrite := keep(core.FromSlice([]float32{1}))
	broken := stream.NewEvent()
	broken.Complete(core.Errorf(core.ErrDeviceLost, "test", "write", "the device is gone"))
	buffer, err := failedWrite.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	buffer.Wrote(broken)

	for _, c := range []struct {
		what string
		of   *core.Tensor
		want error
	}{
		{"nil", nil, core.ErrInvalid},
		{"a closed tensor", closed, core.ErrClosed},
		{"a transposed tensor", keep(x.Transpose()), core.ErrLayout},
		{"every second column", keep(x.Slice(1, 0, 2, 2)), core.ErrLayout},
		{"a type that ONNX Runtime lacks", keep(core.FromSlice([]float.Float8E3M4{1})), core.ErrDType},
		{"complex numbers", keep(core.FromSlice([]complex64{1})), core.ErrDType},
		{"memory of Vulkan", elsewhere(t, core.DeviceVulkan, 0), core.ErrNotSupported},
		{"memory that was written with an error", failedWrite, core.ErrDeviceLost},
	} {
		v, err := lib.Input(ctx, c.of)
		coretest.WantError(t, err, c.want, c.what)
		if v != nil {
			t.Errorf("%s: a value in spite of the error", c.what)
		}
	}
	if _, err := lib.Input(ctx, keep(x.Transpose())); !strings.Contains(fmt.Sprint(err), "Contiguous") {
		t.Errorf("%v does not say what to do", err)
	}
	_, err = lib.Output(ctx, keep(x.AsReadOnly()))
	coretest.WantError(t, err, core.ErrReadOnly, "a read-only output")

	out, err := lib.Output(ctx, failedWrite) // what is overwritten need not have been written
	if err != nil {
		t.Fatal(err)
	}
	_ = out.Destroy()

	_, err = lib.Tensor(nil)
	coretest.WantError(t, err, core.ErrInvalid, "no value")
	words, err := ort.NewStringTensor(ort.NewShape(1))
	if err != nil {
		t.Fatal(err)
	}
	_, err = lib.Tensor(words)
	coretest.WantError(t, err, core.ErrInvalid, "strings")
	_ = words.Destroy()
	one, err := ort.NewTensor(ort.NewShape(1), []float32{1})
	if err != nil {
		t.Fatal(err)
	}
	list, err := ort.NewSequence([]ort.Value{one})
	if err != nil {
		t.Fatal(err)
	}
	_, err = lib.Tensor(list)
	coretest.WantError(t, err, core.ErrDType, "a sequence")
	_ = list.Destroy()
	_ = one.Destroy()
	_, err = lib.Tensor(one)
	coretest.WantError(t, err, core.ErrClosed, "a destroyed value of onnxruntime_go")
}

// elsewhere makes a tensor that claims to lie on another device, at an address that nobody may touch.
func elsewhere(t *testing.T, of core.DeviceType, index int32) *core.Tensor {
	return coretest.Keep(t)(core.Wrap(core.Memory{ID: core.DeviceID{Type: of, Index: index}, Handle: 0x7000, Size: 64},
		core.Spec{DType: core.TypeFloat32, Shape: []int64{4, 4}}))
}

// ONNX Runtime takes memory of devices at its address and says where it lies. Its library for the CPU has no provider
// that could use the memory.
func TestDeviceMemory(t *testing.T) {
	lib := open(t)
	for _, c := range []struct {
		of    core.DeviceType
		index int32
		place string
	}{
		{core.DeviceCUDA, 1, "Cuda"}, {core.DeviceCUDAHost, 0, "CudaPinned"}, {core.DeviceCUDAManaged, 0, "Cuda"},
		{core.DeviceROCM, 1, "Hip"}, {core.DeviceROCMHost, 0, "HipPinned"},
	} {
		x := elsewhere(t, c.of, c.index)
		v, err := lib.Output(ctx, x)
		if err != nil {
			t.Errorf("%v: %v", x, err)
			continue
		}
		if at, place, id, err := lib.Located(v); at != 0x7000 || place != c.place || id != c.index || err != nil {
			t.Errorf("%v lies at %#x in %s:%d, %v", x, at, place, id, err)
		}
		if v.DataType() != ort.TensorElementDataTypeFloat || v.GetONNXType() != ort.ONNXTypeTensor {
			t.Errorf("%v: type %d", x, v.DataType())
		}
		v.ZeroContents() // touches nothing
		back := coretest.Keep(t)(lib.Tensor(v))
		if at, _ := back.Address(); at != 0x7000 || back.DeviceID() != x.DeviceID() {
			t.Errorf("%v came back as %v", x, back)
		}
	}
}

func TestEmpty(t *testing.T) {
	lib := open(t)
	s := session(t, doubling(ort.TensorElementDataTypeFloat, -1, 2), []string{"x"}, []string{"y"})
	x := coretest.Keep(t)(core.FromSlice([]float32{}, 0, 2))
	v, err := lib.Input(ctx, x)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Destroy()
	values := []ort.Value{nil}
	if err := s.Run([]ort.Value{v}, values); err != nil {
		t.Fatal(err)
	}
	y := coretest.Keep(t)(lib.Tensor(values[0]))
	if !slices.Equal(y.Shape(), []int64{0, 2}) {
		t.Error(y)
	}
}
