//go:build cgo && !windows

package dlpack_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/core/dlpack/internal/hostile"
)

// Memory of every type of device passes through untouched: the ones of the header, those after it, and any number.
func TestEveryKindOfDevicePassesThrough(t *testing.T) {
	kinds := []int32{-1, 0, 99, math.MaxInt32, math.MinInt32}
	for kind := range int32(40) {
		if core.DeviceType(kind) != core.DeviceGL {
			kinds = append(kinds, kind)
		}
	}
	for _, kind := range kinds {
		for _, s := range bothStructs {
			id := core.DeviceID{Type: core.DeviceType(kind), Index: 3}
			t.Run(fmt.Sprintf("%v/%s", id, s.name), func(t *testing.T) {
				f := valid()
				f.Device.Type, f.Device.ID, f.ByteOffset = kind, 3, 4
				p := lend(t, s.new(f))
				x := must[*core.Tensor](t)(s.take(p))
				defer func() {
					closeTensor(t, x)
					if n := p.Deleted(); n != 1 {
						t.Errorf("the deleter was called %d times", n)
					}
				}()
				for name, view := range map[string]func() (*core.Tensor, error){
					"Slice":      func() (*core.Tensor, error) { return x.Slice(0, 1, 2, 1) },
					"Transpose":  x.Transpose,
					"AsReadOnly": x.AsReadOnly,
				} {
					v := must[*core.Tensor](t)(view())
					if v.DeviceID() != id {
						t.Errorf("%s is on %v", name, v.DeviceID())
					}
					closeTensor(t, v)
				}
				if text := x.String(); !strings.Contains(text, id.Type.String()) {
					t.Errorf("its text is %q", text)
				}
				if !id.Type.HostAccessible() {
					_, err := core.Values[float32](x)
					wantError(t, err, core.ErrDevice)
					_, cloneErr := x.Clone(t.Context())
					wantError(t, cloneErr, core.ErrDevice)
					unknown := id.Type != core.DeviceCUDA && id.Type != core.DeviceROCM && !id.Type.OpaqueHandle()
					for _, err := range []error{err, cloneErr} {
						if strings.Contains(err.Error(), "dlpack.ImportOptions") != unknown || !strings.Contains(err.Error(), id.String()) {
							t.Errorf("the error does not say what to do: %v", err)
						}
					}
				}
				m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(x))
				defer dlpack.Flush()
				defer dlpack.Delete(m)
				// Only an address of a known kind may be moved to the first element: the others may be handles.
				data, offset := f.Data, uint64(4)
				switch id.Type {
				case core.DeviceCPU, core.DeviceCUDA, core.DeviceCUDAHost, core.DeviceCUDAManaged, core.DeviceROCM, core.DeviceROCMHost:
					data, offset = f.Data+4, 0
				}
				if m.Tensor.Device.Type != kind || m.Tensor.Device.ID != 3 || m.Tensor.Data != data || m.Tensor.ByteOffset != offset {
					t.Errorf("it left as %+v", m.Tensor)
				}
				var d dlpack.Description
				if err := d.Read(m, dlpack.ImportOptions{}); err != nil || d.DeviceID() != id {
					t.Errorf("it is described as on %v: %v", d.DeviceID(), err)
				}
			})
		}
	}
}

// A view may begin before the data pointer, which byte_offset cannot express.
func TestAViewBeforeTheDataPointer(t *testing.T) {
	f := valid()
	f.Device.Type, f.Data, f.Strides = int32(core.DeviceOneAPI), f.Data+20, []int64{-3, -1}
	x := must[*core.Tensor](t)(dlpack.Import(lend(t, hostile.New(f)).Versioned(), dlpack.ImportOptions{}))
	defer closeTensor(t, x)
	v := must[*core.Tensor](t)(x.Slice(0, 1, 2, 1))
	defer closeTensor(t, v)
	m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(v))
	defer dlpack.Delete(m)
	if m.Tensor.Data != f.Data-12 || m.Tensor.ByteOffset != 0 {
		t.Errorf("it left as data %+d, byte_offset %d", int64(m.Tensor.Data-f.Data), m.Tensor.ByteOffset)
	}
}

// Memory of a type without an address of its own can be used as what the program says it is.
func TestOnDevice(t *testing.T) {
	for _, kind := range []core.DeviceType{core.DeviceVPI, core.DeviceOneAPI, core.DeviceExt, 99} {
		f := valid()
		f.Device.Type = int32(kind)
		x := must[*core.Tensor](t)(dlpack.Import(lend(t, hostile.New(f)).Versioned(), dlpack.ImportOptions{OnDevice: core.CPU}))
		if values := must[[]float32](t)(core.Values[float32](x)); len(values) != 6 || x.DeviceID() != core.CPU {
			t.Errorf("%v: %v", kind, x)
		}
		closeTensor(t, x)
	}
	for _, kind := range []core.DeviceType{core.DeviceCPU, core.DeviceCUDA, core.DeviceCUDAManaged, core.DeviceROCM, core.DeviceVulkan, core.DeviceMetal} {
		f := valid()
		f.Device.Type = int32(kind)
		p := lend(t, hostile.New(f))
		_, err := dlpack.Import(p.Versioned(), dlpack.ImportOptions{OnDevice: core.DeviceID{Type: core.DeviceCUDAHost}})
		wantError(t, err, core.ErrDevice)
		if n := p.Deleted(); n != 1 {
			t.Errorf("%v: the deleter was called %d times", kind, n)
		}
	}
	for _, id := range []core.DeviceID{{Index: 1}, {Type: core.DeviceVulkan}, {Type: core.DeviceVPI}} {
		f := valid()
		f.Device.Type = int32(core.DeviceVPI)
		_, err := dlpack.Import(lend(t, hostile.New(f)).Versioned(), dlpack.ImportOptions{OnDevice: id})
		wantError(t, err, core.ErrDevice)
	}
}
