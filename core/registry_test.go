package core_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// namedBackend serves devices of its own name and has one of index 0.
type namedBackend string

func (b namedBackend) Name() string { return string(b) }

func (b namedBackend) Probe(context.Context) core.Probe { return core.Probe{Available: true} }

func (b namedBackend) Devices(context.Context) ([]core.Properties, error) { return nil, nil }

func (b namedBackend) Open(_ context.Context, id core.DeviceID) (core.Device, error) {
	if id.Index != 0 {
		return nil, core.Errorf(core.ErrDevice, b.Name(), "Open", "%v is not there", id)
	}
	return device{id: id}, nil
}

// device allocates memory of a fixed size, whatever is asked for.
type device struct {
	core.Device
	id    core.DeviceID
	size  int64
	owner core.Owner
}

func (d device) ID() core.DeviceID { return d.id }

func (d device) Alloc(context.Context, int64, core.AllocOptions) (core.Memory, error) {
	if d.size < 0 {
		return core.Memory{}, core.Errorf(core.ErrOutOfMemory, "test", "Alloc", "nothing left")
	}
	return core.Memory{ID: d.id, Device: d, Handle: 256, Size: d.size, Owner: d.owner}, nil
}

func TestRegistry(t *testing.T) {
	var r core.Registry
	for _, b := range []core.Backend{namedBackend("cpu"), namedBackend("cuda")} {
		if err := r.Register(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Register(namedBackend("cpu")); !errors.Is(err, core.ErrExists) {
		t.Errorf("a second cpu: %v, want ErrExists", err)
	}
	for _, b := range []core.Backend{nil, namedBackend("")} {
		if err := r.Register(b); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("Register(%v) = %v, want ErrInvalid", b, err)
		}
	}
	if got := r.Backends(); len(got) != 2 || got[0].Name() != "cpu" || got[1].Name() != "cuda" {
		t.Errorf("Backends() = %v", got)
	}
	managed := core.DeviceID{Type: core.DeviceCUDAManaged}
	if d, err := r.Open(t.Context(), managed); err != nil || d.ID() != managed {
		t.Errorf("Open(%v) = %v, %v; cuda serves it", managed, d, err)
	}
	if _, err := r.Open(t.Context(), core.DeviceID{Type: core.DeviceCUDA, Index: 1}); !errors.Is(err, core.ErrDevice) {
		t.Errorf("a missing device: %v, want ErrDevice", err)
	}
	if _, err := r.Open(t.Context(), core.DeviceID{Type: core.DeviceVulkan}); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("a missing backend: %v, want ErrNotSupported", err)
	}
}

func TestEmpty(t *testing.T) {
	o := &owner{}
	d := device{id: core.CPU, size: 24, owner: o}
	v, err := core.Empty(t.Context(), d, core.TypeFloat32, []int64{2, 3}, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if v.Device() != core.Device(d) || v.NumBytes() != 24 {
		t.Errorf("%v on %v", v, v.Device())
	}
	mustClose(t, v)
	d.size = 20 // a device that gives less than it was asked for is found out, and gets its memory back
	if _, err := core.Empty(t.Context(), d, core.TypeFloat32, []int64{2, 3}, core.AllocOptions{}); !errors.Is(err, core.ErrLayout) {
		t.Errorf("%v, want ErrLayout", err)
	}
	if n := o.freed.Load(); n != 2 {
		t.Errorf("freed %d times, want 2", n)
	}
	for _, c := range []struct {
		dtype core.DType
		shape []int64
		want  error
	}{
		{core.TypeFloat32, []int64{-1}, core.ErrLayout},
		{core.TypeFloat64, []int64{1 << 60}, core.ErrLayout},
		{core.DType{}, []int64{1}, core.ErrDType},
	} {
		if _, err := core.Empty(t.Context(), d, c.dtype, c.shape, core.AllocOptions{}); !errors.Is(err, c.want) {
			t.Errorf("Empty(%v, %v) = %v, want %v", c.dtype, c.shape, err, c.want)
		}
	}
	d.size = -1
	if _, err := core.Empty(t.Context(), d, core.TypeInt8, nil, core.AllocOptions{}); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("%v, want ErrOutOfMemory", err)
	}
}

func TestErrorText(t *testing.T) {
	for want, err := range map[string]error{
		"cpu: mmap: out of memory (code 12): 4096 bytes": &core.Error{Backend: "cpu", Call: "mmap", Code: 12, Detail: "4096 bytes", Err: core.ErrOutOfMemory},
		"cuda: device lost":                     &core.Error{Backend: "cuda", Err: core.ErrDeviceLost},
		"failed":                                &core.Error{},
		"npy: Open: bad layout: shape[1] is -2": core.Errorf(core.ErrLayout, "npy", "Open", "shape[%d] is %d", 1, -2),
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
