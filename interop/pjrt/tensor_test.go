//go:build cgo && unix

package pjrt_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/interop/pjrt"
	"github.com/dlx-go/dlx/stream"
	xladtypes "github.com/gomlx/compute/dtypes"
	xla "github.com/gomlx/go-xla/pjrt"
)

// aligned makes a tensor in memory that PJRT takes.
func aligned[T core.Element](t testing.TB, values []T, shape ...int64) *core.Tensor {
	t.Helper()
	device, err := cpu.New().Open(ctx, core.CPU)
	must(t, err)
	t.Cleanup(func() { must(t, device.Close()) })
	x := coretest.Keep(t)(core.Empty(ctx, device, core.DTypeOf[T](), shape, core.AllocOptions{}))
	all, err := core.Mutable[T](x)
	must(t, err)
	copy(all, values)
	return x
}

func address(t testing.TB, x *core.Tensor) uintptr {
	t.Helper()
	a, err := x.Address()
	must(t, err)
	return a
}

// PJRT's own function says that the buffer lies where the tensor lies, and the tensor of a buffer where the buffer lies.
func TestSameAddress(t *testing.T) {
	x := aligned(t, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	v, err := pjrt.NewView(ctx, client, x)
	must(t, err)
	at, err := v.Buffer().UnsafePointer()
	must(t, err)
	if uintptr(at) != address(t, x) {
		t.Errorf("the tensor lies at %#x, and its buffer at %p", address(t, x), at)
	}
	outputs, err := program(t, doubling).Execute(v.Buffer()).Done()
	must(t, err)
	at, err = outputs[0].UnsafePointer()
	must(t, err)
	y, err := pjrt.Tensor(outputs[0])
	must(t, err)
	defer y.Close()
	if address(t, y) != uintptr(at) || y.DeviceID() != core.CPU || !slices.Equal(y.Shape(), []int64{2, 3}) || !y.ReadOnly() {
		t.Errorf("the buffer lies at %p, and its tensor, %v, at %#x", at, y, address(t, y))
	}
	got, err := core.Values[float32](y)
	if err != nil || !slices.Equal(got, []float32{2, 4, 6, 8, 10, 12}) {
		t.Error(got, err)
	}

	all, err := core.Mutable[float32](x)
	must(t, err)
	all[5] = 21 // PJRT sees the memory itself
	again, err := pjrt.Run(ctx, client, program(t, doubling), x)
	must(t, err)
	defer again[0].Close()
	if got, err := core.Values[float32](again[0]); err != nil || got[5] != 42 {
		t.Error(got, err)
	}
	must(t, v.Close())
	must(t, v.Close())
}

// The memory of a tensor stays open as long as the view, and a result as long as its tensor.
func TestKeepsMemory(t *testing.T) {
	freed := 0
	memory := xla.AlignedAlloc(24, pjrt.Alignment)
	x, err := core.Wrap(core.Memory{ID: core.CPU, Handle: uintptr(memory), Size: 24,
		Owner: ownerFunc(func() { freed++; xla.AlignedFree(memory) })}, core.Spec{DType: core.TypeFloat32, Shape: []int64{2, 3}})
	must(t, err)
	v, err := pjrt.NewView(ctx, client, x)
	must(t, err)
	x.Close()
	if freed != 0 {
		t.Fatal("freed under the view")
	}
	must(t, v.Close())
	if freed != 1 {
		t.Fatalf("freed %d times", freed)
	}
}

type ownerFunc func()

func (f ownerFunc) Free() { f() }

// A program that returns its input gives other memory: a result never lies in memory of the program.
func TestIdentity(t *testing.T) {
	x := aligned(t, []float32{1, 2, 3}, 3)
	results, err := pjrt.Run(ctx, client, program(t, `module @same {
  func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    return %x : tensor<3xf32>
  }
}`), x)
	must(t, err)
	defer results[0].Close()
	if address(t, results[0]) == address(t, x) {
		t.Error("the result is the input")
	}
}

// All types that both have, in a view and back.
func TestTypes(t *testing.T) {
	device, err := cpu.New().Open(ctx, core.CPU)
	must(t, err)
	defer device.Close()
	tried := 0
	for theirs := xladtypes.Bool; theirs <= xladtypes.F8E8M0FNU; theirs++ {
		if theirs == xladtypes.TOKEN { // has no data: XLA would end the process
			continue
		}
		b, err := client.BufferFromHost().FromRawData(make([]byte, 64), theirs, []int{4}).Done()
		if err != nil {
			t.Logf("%v: %v", theirs, err)
			continue
		}
		x, err := pjrt.Tensor(b)
		if errors.Is(err, core.ErrDType) && strings.Contains("Int2 Int4 Uint2 Uint4", theirs.String()) {
			must(t, b.Destroy())
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", theirs, err)
			must(t, b.Destroy())
			continue
		}
		tried++
		y, err := core.Empty(ctx, device, x.DType(), x.Shape(), core.AllocOptions{})
		must(t, err)
		v, err := pjrt.NewView(ctx, client, y)
		if err != nil {
			t.Errorf("%v: %v", y, err)
		} else {
			if back, err := v.Buffer().DType(); back != theirs || err != nil {
				t.Errorf("%v became %v, and that %v, %v", theirs, x.DType(), back, err)
			}
			must(t, v.Close())
		}
		x.Close()
		y.Close()
	}
	if tried < 20 {
		t.Errorf("only %d types", tried)
	}
}

func TestMisuse(t *testing.T) {
	keep := coretest.Keep(t)
	x := aligned(t, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	closed := aligned(t, []float32{1}, 1)
	closed.Close()
	failedWrite := aligned(t, []float32{1}, 1)
	lost := stream.NewEvent()
	lost.Complete(core.Errorf(core.ErrDeviceLost, "test", "write", "the device is gone"))
	buffer, err := failedWrite.Buffer()
	must(t, err)
	buffer.Wrote(lost)
	for _, c := range []struct {
		what string
		of   *core.Tensor
		want error
	}{
		{"nil", nil, core.ErrInvalid},
		{"a closed tensor", closed, core.ErrClosed},
		{"a transposed tensor", keep(x.Transpose()), core.ErrLayout},
		{"an address that is not aligned", keep(x.Index(0, 1)), core.ErrLayout},
		{"a packed type", keep(core.Wrap(core.Memory{ID: core.CPU, Handle: 0x7000, Size: 8}, core.Spec{DType: core.TypeInt4, Shape: []int64{4}})), core.ErrDType},
		{"memory of CUDA", keep(core.Wrap(core.Memory{ID: core.DeviceID{Type: core.DeviceCUDA}, Handle: 0x7000, Size: 8}, core.Spec{DType: core.TypeInt8, Shape: []int64{4}})), core.ErrDevice},
		{"memory that was written with an error", failedWrite, core.ErrDeviceLost},
	} {
		v, err := pjrt.NewView(ctx, client, c.of)
		coretest.WantError(t, err, c.want, c.what)
		if v != nil {
			t.Errorf("%s: a view in spite of the error", c.what)
		}
	}
	_, err = pjrt.NewView(ctx, nil, x)
	coretest.WantError(t, err, core.ErrInvalid, "no client")
	_, err = pjrt.NewView(ctx, new(xla.Client), x)
	coretest.WantError(t, err, core.ErrClosed, "a client that is none")

	_, err = pjrt.Tensor(nil)
	coretest.WantError(t, err, core.ErrInvalid, "no buffer")
	b, err := xla.ScalarToBuffer(client, float32(1))
	must(t, err)
	must(t, b.Destroy())
	_, err = pjrt.Tensor(b)
	coretest.WantError(t, err, core.ErrClosed, "a destroyed buffer")

	_, err = pjrt.Run(ctx, client, nil)
	coretest.WantError(t, err, core.ErrInvalid, "no program")
	double := program(t, doubling)
	_, err = pjrt.Run(ctx, client, double, x, x)
	coretest.WantError(t, err, core.ErrInvalid, "two inputs for one")
	_, err = pjrt.Run(ctx, client, double, aligned(t, []float32{1}, 1))
	coretest.WantError(t, err, core.ErrInvalid, "an input of another shape")
	_, err = pjrt.Run(ctx, client, double, x, closed)
	coretest.WantError(t, err, core.ErrClosed, "a second input that is closed")
	results, err := pjrt.Run(ctx, client, double, x) // as if nothing had happened
	must(t, err)
	results[0].Close()
}

// A program that may reuse the memory of its input does not reuse that of a tensor, and of other buffers it does.
func TestHeld(t *testing.T) {
	p := program(t, strings.ReplaceAll(doubling, "%x: tensor<2x3xf32>", "%x: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}"))
	for _, held := range []bool{false, true} {
		b, err := xla.ArrayToBuffer(client, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
		must(t, err)
		before, err := b.UnsafePointer()
		must(t, err)
		if held {
			x, err := pjrt.Tensor(b)
			must(t, err)
			defer x.Close() // go-xla destroys b in spite of the tensor: nobody may read x
		}
		outputs, err := p.Execute(b).DonateAll().Done()
		must(t, err)
		after, err := outputs[0].UnsafePointer()
		must(t, err)
		if (before == after) == held {
			t.Errorf("held: %v, and the result lies at %p, the input at %p", held, after, before)
		}
		must(t, outputs[0].Destroy())
	}
}

// A view that a program donates is not written to: the memory is the tensor's, and may be read-only. go-xla has then
// destroyed the buffer.
func TestDonatedView(t *testing.T) {
	p := program(t, strings.ReplaceAll(doubling, "%x: tensor<2x3xf32>", "%x: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}"))
	x := aligned(t, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	v, err := pjrt.NewView(ctx, client, x)
	must(t, err)
	outputs, err := p.Execute(v.Buffer()).DonateAll().Done()
	must(t, err)
	at, err := outputs[0].UnsafePointer()
	must(t, err)
	must(t, v.Close())
	if uintptr(at) == address(t, x) {
		t.Error("the result lies in the memory of the tensor")
	}
	if got, err := core.Values[float32](x); err != nil || !slices.Equal(got, []float32{1, 2, 3, 4, 5, 6}) {
		t.Error(got, err)
	}
	must(t, outputs[0].Destroy())
}

func TestScalarsAndEmptyTensors(t *testing.T) {
	for _, shape := range [][]int64{{}, {0}, {3, 0, 2}, {1, 1, 1, 1, 1}} {
		v, err := pjrt.NewView(ctx, client, aligned(t, []int32{7}, shape...))
		if err != nil {
			t.Errorf("%v: %v", shape, err)
			continue
		}
		if dims, err := v.Buffer().Dimensions(); err != nil || len(dims) != len(shape) {
			t.Errorf("%v became %v, %v", shape, dims, err)
		}
		must(t, v.Close())
		dims := make([]int, len(shape))
		for i, n := range shape {
			dims[i] = int(n)
		}
		b, err := client.BufferFromHost().FromRawData([]byte{7, 0, 0, 0}, xladtypes.Int32, dims).Done()
		must(t, err)
		x, err := pjrt.Tensor(b)
		if err != nil {
			t.Errorf("%v: %v", shape, err)
			must(t, b.Destroy())
			continue
		}
		if !slices.Equal(x.Shape(), shape) {
			t.Errorf("%v became %v", shape, x)
		}
		x.Close()
	}
}

// A buffer that PJRT may still be writing is read when it is written.
func TestReady(t *testing.T) {
	devices := client.AddressableDevices()
	values := make([]float32, 4<<20)
	for i := range values {
		values[i] = float32(i)
	}
	b, err := xla.ArrayToBuffer(client, values, len(values))
	must(t, err)
	for range 10 {
		moved, err := b.CopyToDevice(devices[len(devices)-1])
		must(t, err)
		x, err := pjrt.Tensor(moved)
		must(t, err)
		got, err := core.Values[float32](x) // waits
		if err != nil || !slices.Equal(got, values) {
			t.Errorf("%d of %d values, %v", len(got), len(values), err)
		}
		x.Close()
	}
	must(t, b.Destroy())
}

// Run waits for a write to its input.
func TestOrder(t *testing.T) {
	x := aligned(t, []float32{0, 0, 0, 0, 0, 0}, 2, 3)
	all, err := core.Mutable[float32](x)
	must(t, err)
	written := stream.NewEvent()
	buffer, err := x.Buffer()
	must(t, err)
	buffer.Wrote(written)
	double := program(t, doubling)
	started := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		close(started)
		results, err := pjrt.Run(ctx, client, double, x)
		if err != nil {
			t.Error(err)
			return
		}
		defer results[0].Close()
		if got, err := core.Values[float32](results[0]); err != nil || got[0] != 42 {
			t.Error(got, err)
		}
	})
	<-started
	all[0] = 21
	written.Complete(nil)
	wg.Wait()
}

// Many goroutines use one client, one program and one tensor.
func TestHammer(t *testing.T) {
	shared := aligned(t, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	double := program(t, doubling)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				results, err := pjrt.Run(ctx, client, double, shared)
				if err != nil {
					t.Error(err)
					return
				}
				more, err := pjrt.Run(ctx, client, double, results[0])
				if err != nil {
					t.Error(err)
				} else if got, err := core.Values[float32](more[0]); err != nil || got[5] != 24 {
					t.Error(got, err)
				}
				results[0].Close()
				if err == nil {
					more[0].Close()
				}
			}
		})
	}
	wg.Wait()
}
