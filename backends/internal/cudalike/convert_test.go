package cudalike_test

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Memory of another library is what its tensor says, or the driver is not asked to convert there.
func TestConversionOfOtherMemory(t *testing.T) {
	d, far := open(t, rocm, 0), open(t, rocm, 1)
	t.Cleanup(func() { _, _ = d.Close(), far.Close() }) // after the tensors
	keep := coretest.Keep(t)
	alloc := func(d core.Device, kind core.DeviceType) uintptr {
		b, err := keep(core.Empty(t.Context(), d, core.TypeUint8, []int64{4096}, core.AllocOptions{Type: kind})).Buffer()
		if err != nil {
			t.Fatal(err)
		}
		return b.Memory().Handle
	}
	own, pinned := alloc(d, core.DeviceROCM), alloc(d, core.DeviceROCMHost)
	// said is memory without an owner.
	said := func(kind core.DeviceType, at uintptr, e core.DType, n int64) *core.Tensor {
		return keep(core.Wrap(core.Memory{ID: core.DeviceID{Type: kind}, Size: core.UnknownSize, Handle: at}, core.Spec{DType: e, Shape: []int64{n}}))
	}
	src := keep(core.Empty(t.Context(), d, core.TypeInt16, []int64{64}, core.AllocOptions{Type: core.DeviceROCMHost}))
	farther := keep(core.Empty(t.Context(), far, core.TypeInt16, []int64{64}, core.AllocOptions{Type: core.DeviceROCMHost}))
	longer := keep(core.Empty(t.Context(), d, core.TypeUint8, []int64{1100}, core.AllocOptions{}))
	for _, c := range []struct {
		what     string
		dst, src *core.Tensor
		want     error
	}{
		{"device memory", said(core.DeviceROCM, own, core.TypeFloat32, 64), src, nil},
		{"pinned memory", said(core.DeviceROCMHost, pinned, core.TypeFloat32, 64), src, nil},
		{"pinned memory of another device", said(core.DeviceROCM, own, core.TypeFloat32, 64), farther, nil},
		{"pinned memory that is said to be the device's", said(core.DeviceROCM, pinned, core.TypeFloat32, 64), src, core.ErrInvalid},
		{"no memory", said(core.DeviceROCM, 64, core.TypeFloat32, 64), src, core.ErrInvalid},
		{"memory that ends early", said(core.DeviceROCM, own, core.TypeFloat32, 1100), longer, core.ErrInvalid},
		{"memory at an odd address", said(core.DeviceROCM, own+2, core.TypeFloat32, 64), src, core.ErrLayout},
		{"a source at an odd address", said(core.DeviceROCM, own, core.TypeFloat32, 64), said(core.DeviceROCM, own+1025, core.TypeInt16, 64), core.ErrLayout},
	} {
		err := d.(core.Converter).ConvertOn(t.Context(), nil, c.dst, c.src, core.Scaling{})
		if c.want != nil {
			coretest.WantError(t, err, c.want, c.what)
		} else if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
