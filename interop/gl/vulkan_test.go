//go:build gl && vulkan && linux && cgo

package gl

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/vulkan"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
)

// What the tests of backends have in common, by short names.
var (
	put             = coretest.Put
	get             = coretest.Get
	pattern         = coretest.Pattern
	descriptors     = coretest.Descriptors
	wantDescriptors = coretest.WantDescriptors
)

// openBoth opens a device of Vulkan and one of OpenGL that share memory.
func openBoth(t *testing.T) (vk, gles core.Device) {
	t.Helper()
	needDriver(t)
	opened := func(b core.Backend, id core.DeviceID) core.Device {
		coretest.NeedDriver(t, b.Probe(t.Context()).Reason, "mesa-vulkan-drivers and libvulkan1")
		d, err := b.Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Errorf("Close of %v: %v", id, err)
			}
		})
		return d
	}
	vk = opened(vulkan.New(vulkan.Options{}), core.DeviceID{Type: core.DeviceVulkan})
	needSharing(t, vk)
	return vk, opened(New(), core.DeviceID{Type: core.DeviceGL})
}

// exportable allocates n bytes on d that can be exported.
func exportable(t *testing.T, d core.Device, n int64) *core.Tensor {
	t.Helper()
	return coretest.Row(t, d, n, core.AllocOptions{Export: core.HandleOpaqueFD})
}

func export(t *testing.T, d core.Device, x *core.Tensor) core.ExternalMemory {
	t.Helper()
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMemoryOfVulkanIsABufferOfOpenGL(t *testing.T) {
	vk, gles := openBoth(t)
	for _, n := range []int64{1, 63, 4096, 4097, 1 << 20} {
		x := exportable(t, vk, n)
		put(t, vk, x, pattern(int(n), 1))
		before := descriptors()
		m, err := gles.(core.MemoryImporter).ImportMemory(t.Context(), export(t, vk, x))
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		imported, err := core.Wrap(m, bytesOf(n))
		if err != nil {
			t.Fatal(err)
		}
		if after := descriptors(); after > before {
			t.Errorf("%d bytes: %d descriptors are open after the import, before there were %d", n, after, before)
		}
		if !bytes.Equal(get(t, gles, imported), pattern(int(n), 1)) {
			t.Errorf("%d bytes: OpenGL does not see what Vulkan wrote", n)
		}
		put(t, gles, imported, pattern(int(n), 2))
		if !bytes.Equal(get(t, vk, x), pattern(int(n), 2)) {
			t.Errorf("%d bytes: Vulkan does not see what OpenGL wrote", n)
		}
		_ = x.Close()
		if !bytes.Equal(get(t, gles, imported), pattern(int(n), 2)) {
			t.Errorf("%d bytes: the memory did not outlive Vulkan's tensor", n)
		}
		_ = imported.Close()
		if after := descriptors(); after > before {
			t.Errorf("%d bytes: %d descriptors are open at the end, before there were %d", n, after, before)
		}
	}
}

func TestAPartOfAnAllocationIsImportedAtItsOffset(t *testing.T) {
	vk, gles := openBoth(t)
	x := exportable(t, vk, 10000)
	put(t, vk, x, pattern(10000, 3))
	whole := export(t, vk, x)
	part := whole
	part.Offset, part.Length = whole.Offset+5001, 777
	m, err := gles.(core.MemoryImporter).ImportMemory(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	imported, err := core.Wrap(m, bytesOf(777))
	if err != nil {
		t.Fatal(err)
	}
	defer imported.Close()
	if !bytes.Equal(get(t, gles, imported), pattern(10000, 3)[5001:5778]) {
		t.Error("OpenGL sees other bytes")
	}
	put(t, gles, imported, pattern(777, 9))
	want := pattern(10000, 3)
	copy(want[5001:], pattern(777, 9))
	if !bytes.Equal(get(t, vk, x), want) {
		t.Error("OpenGL wrote other bytes")
	}
}

func TestARefusedImportLeavesTheDescriptorToItsCaller(t *testing.T) {
	vk, gles := openBoth(t)
	x := exportable(t, vk, 5000)
	valid := export(t, vk, x)
	defer func() {
		_, empty := valid.Handle.Number()
		if err := errors.Join(empty, valid.Close()); err != nil {
			t.Errorf("the descriptor is not the caller's any more: %v", err)
		}
	}()
	before := descriptors()
	for _, c := range []struct {
		rule   string
		change func(*core.ExternalMemory)
		want   error
	}{
		{"memory of another device", func(m *core.ExternalMemory) { m.DeviceUUID[15] ^= 1 }, core.ErrDevice},
		{"a size beyond the descriptor's", func(m *core.ExternalMemory) { m.Size += 1 << 30; m.Length += 1 << 30 }, core.ErrInvalid},
		{"a range beyond the allocation", func(m *core.ExternalMemory) { m.Length = m.Size + 1 }, core.ErrInvalid},
	} {
		m := valid
		c.change(&m)
		memory, err := gles.(core.MemoryImporter).ImportMemory(t.Context(), m)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %q", c.rule, err, c.want)
		}
		if err == nil {
			memory.Free()
		}
		wantDescriptors(t, before, c.rule)
	}
}

func TestExchangeSharesVulkansMemoryWithOpenGL(t *testing.T) {
	vk, gles := openBoth(t)
	x, err := core.Empty(t.Context(), vk, core.TypeFloat32, []int64{64, 48}, exchange.AllocFor(vk, gles))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	values := make([]float32, 64*48)
	for i := range values {
		values[i] = float32(i)
	}
	host, err := core.FromSlice(values, 64, 48)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	if err := vk.Copy(t.Context(), nil, x, host); err != nil {
		t.Fatal(err)
	}
	turned, err := x.Transpose()
	if err != nil {
		t.Fatal(err)
	}
	defer turned.Close()
	for i := range 2 {
		moved, report, err := exchange.To(t.Context(), turned, gles, exchange.Options{Copy: exchange.Never})
		if err != nil {
			t.Fatal(err)
		}
		if report.BytesCopied != 0 || report.Mechanism != exchange.Map || report.Opened != (i == 0) {
			t.Errorf("move %d: %+v", i, report)
		}
		back := make([]float32, len(values))
		into, err := core.FromSlice(back, 48, 64)
		if err != nil {
			t.Fatal(err)
		}
		if err := gles.Copy(t.Context(), nil, into, moved); err != nil {
			t.Fatal(err)
		}
		want := make([]float32, 0, len(values))
		for c := range 48 {
			for r := range 64 {
				want = append(want, values[r*48+c])
			}
		}
		if !slices.Equal(back, want) {
			t.Errorf("move %d: OpenGL reads other values", i)
		}
		_, _ = into.Close(), moved.Close()
	}
}

func TestARendererDrawsFromMemoryOfVulkan(t *testing.T) {
	vk, _ := openBoth(t)
	x := exportable(t, vk, 1000)
	put(t, vk, x, pattern(1000, 5))
	render(t, func(loop *Loop, d core.Device) {
		var moved *core.Tensor
		if err := loop.Call(func() (err error) {
			moved, _, err = exchange.To(t.Context(), x, d, exchange.Options{Copy: exchange.Never})
			return err
		}); err != nil {
			t.Error(err)
			return
		}
		defer moved.Close()
		name, offset, err := Name(moved)
		if err != nil {
			t.Error(err)
			return
		}
		got := make([]byte, 1000)
		gl.GetNamedBufferSubData(name, int(offset), 1000, gl.Ptr(got))
		if !bytes.Equal(got, pattern(1000, 5)) {
			t.Error("the renderer sees other bytes")
		}
	})
}
