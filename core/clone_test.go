package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// inOrder lets copies of the simulated device run at once, since nothing else is enqueued here.
func inOrder(_ context.Context, s core.Stream, writes, _ []*core.Tensor, enqueue func() error) error {
	if err := enqueue(); err != nil {
		return err
	}
	e, err := s.Record()
	if err != nil {
		return err
	}
	for _, t := range writes {
		b, err := t.Buffer()
		if err != nil {
			return err
		}
		b.Wrote(e)
	}
	return nil
}

// Memory of a device, which the host cannot reach, is cloned by that device.
func TestCloneOnADevice(t *testing.T) {
	ctx := t.Context()
	d, err := coretest.NewBackend(coretest.Options{Submit: inOrder}).Open(ctx, core.DeviceID{Type: core.DeviceExt})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	keep := keeper(t)
	host := keep(core.FromSlice([]int32{1, 2, 3, 4, 5, 6}, 2, 3))
	there := keep(core.Empty(ctx, d, core.TypeInt32, []int64{2, 3}, core.AllocOptions{}))
	if err := d.Copy(ctx, nil, there, host); err != nil {
		t.Fatal(err)
	}
	turned := keep(keep(there.Transpose()).AsReadOnly())
	for name, f := range map[string]func(context.Context) (*core.Tensor, error){"Clone": turned.Clone, "Contiguous": turned.Contiguous} {
		c, err := f(ctx)
		if err != nil {
			t.Fatal(name, err)
		}
		back := keep(core.FromSlice(make([]int32, 6), 3, 2))
		if err := d.Copy(ctx, nil, back, c); err != nil {
			t.Fatal(err)
		}
		if s, err := core.Values[int32](back); err != nil || !slices.Equal(s, []int32{1, 4, 2, 5, 3, 6}) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
		if c.DeviceID() != there.DeviceID() || c.Device() != d || c.ReadOnly() || !c.Layout().IsContiguous() {
			t.Errorf("%s is %v", name, c)
		}
		c.Close()
	}
	if s, err := core.ToSlice[int32](ctx, turned); err != nil || !slices.Equal(s, []int32{1, 4, 2, 5, 3, 6}) {
		t.Errorf("ToSlice of device memory: %v, %v", s, err)
	}
	if _, err := core.ToSlice[uint32](ctx, there); !errors.Is(err, core.ErrDType) {
		t.Errorf("ToSlice of device memory with another type: %v, want ErrDType", err)
	}
	if s, err := core.ToSlice[int32](ctx, keep(there.Slice(0, 1, 1, 1))); err != nil || len(s) != 0 {
		t.Errorf("ToSlice of no elements of device memory: %v, %v", s, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := core.ToSlice[int32](ended, there); !errors.Is(err, context.Canceled) {
		t.Errorf("ToSlice of device memory with a context that has ended: %v", err)
	}
	if _, err := core.At[int32](there, 0, 0); !errors.Is(err, core.ErrDevice) {
		t.Errorf("At of device memory: %v, want ErrDevice", err)
	}
	if s, err := core.ToSlice[int8](ctx, keep(turned.AsType(ctx, core.TypeInt8))); err != nil || !slices.Equal(s, []int8{1, 4, 2, 5, 3, 6}) {
		t.Errorf("AsType of device memory: %v, %v", s, err)
	}
	strange := over(t, core.Memory{ID: core.DeviceID{Type: core.DeviceCUDA}, Handle: 4096}, core.Spec{Shape: []int64{2, 3}})
	if _, err := strange.AsType(ctx, core.TypeInt8); !errors.Is(err, core.ErrDevice) {
		t.Errorf("AsType of memory of no opened device: %v, want ErrDevice", err)
	}
	if err := core.Convert(ctx, strange, host); !errors.Is(err, core.ErrDevice) {
		t.Errorf("Convert into memory of no opened device: %v, want ErrDevice", err)
	}
	if got := fmt.Sprintf("%+v", there); got != "int32[2 3] on ext_dev:0" {
		t.Error(got)
	}
}

func ExampleTensor_Contiguous() {
	ctx := context.Background()
	t, err := core.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	columns, err := t.Transpose()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer columns.Close()
	rows, err := columns.Contiguous(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rows.Close()
	fmt.Println(core.Values[float32](rows))
	fmt.Println(core.EqualBits(ctx, rows, columns))
	// Output:
	// [1 4 2 5 3 6] <nil>
	// true <nil>
}

func ExampleFill() {
	ctx := context.Background()
	t, err := core.FromSlice(make([]int, 6), 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	column, err := t.Index(1, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer column.Close()
	fmt.Println(core.Fill(ctx, column, 7))
	fmt.Println(core.Values[int](t))
	// Output:
	// <nil>
	// [0 0 7 0 0 7] <nil>
}

func ExampleRegistry_Devices() {
	ctx := context.Background()
	var r core.Registry
	for _, b := range []core.Backend{
		backendWith{namedBackend: "vulkan", devices: 1},
		backendWith{namedBackend: "cuda", reason: "libcuda.so.1 was not found"},
	} {
		if err := r.Register(b); err != nil {
			fmt.Println(err)
		}
	}
	devices, err := r.Devices(ctx)
	for _, d := range devices {
		fmt.Println(d.Name)
	}
	fmt.Println(err)
	for _, p := range r.Probes(ctx) {
		fmt.Printf("%s %v %q\n", p.Backend, p.Available, p.Reason)
	}
	// Output:
	// vulkan 0
	// <nil>
	// vulkan true ""
	// cuda false "libcuda.so.1 was not found"
}
