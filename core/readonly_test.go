package core_test

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// No tensor on memory that cannot be written allows a write, whichever flags it is made with.
func TestTensorsOnReadOnlyMemoryAreReadOnly(t *testing.T) {
	base, err := core.FromSlice(make([]byte, 8))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	p, err := base.Address()
	if err != nil {
		t.Fatal(err)
	}
	spec := core.Spec{DType: core.TypeUint8, Shape: []int64{8}}
	x, err := core.Wrap(core.Memory{ID: core.CPU, Handle: p, Size: 8, ReadOnly: true, Origin: core.DeviceVulkan}, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	if m := b.Memory(); !m.ReadOnly || m.Origin != core.DeviceVulkan || m.OriginType() != core.DeviceVulkan {
		t.Errorf("the buffer has %+v", m)
	}
	y, err := core.NewTensor(b, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	for _, r := range []*core.Tensor{x, y} {
		if _, err := core.Mutable[byte](r); !errors.Is(err, core.ErrReadOnly) || !r.ReadOnly() {
			t.Errorf("%v: read-only is %v, Mutable gives %v", r, r.ReadOnly(), err)
		}
	}
	if !b.ReadOnly() {
		t.Error("the buffer is not read-only")
	}
	for _, flags := range []core.Flags{0, core.FlagReadOnly} {
		spec.Flags = flags
		z, err := core.Wrap(core.Memory{ID: core.CPU, Handle: p, Size: 8}, spec)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := z.Buffer(); err != nil || b.ReadOnly() != (flags != 0) || b.Memory().ReadOnly {
			t.Errorf("a buffer of a tensor with the flags %d: read-only is %v, %+v, %v", flags, b.ReadOnly(), b.Memory(), err)
		}
		_ = z.Close()
	}
	if o := (core.Memory{ID: core.DeviceID{Type: core.DeviceCUDAHost}}).OriginType(); o != core.DeviceCUDAHost {
		t.Errorf("the origin of pinned memory is %v", o)
	}
}
