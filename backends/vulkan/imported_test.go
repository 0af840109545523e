//go:build vulkan && linux && cgo

package vulkan

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// wrapped opens a device over that of a renderer.
func wrapped(t *testing.T) (*renderer, core.Device) {
	t.Helper()
	r := newRenderer(t, inner(opened(t)))
	d, err := Wrap(context.Background(), r.handles)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, d
}

var rendererSpec = core.Spec{DType: core.TypeUint8, Shape: []int64{rendererBytes}}

// byDescriptor imports what the renderer knows of its VkBuffer by a DLVulkanBuffer.
func (r *renderer) byDescriptor(d core.Device, b Buffer, owner core.Owner) (core.Memory, error) {
	o := inner(d).objectFrom(b)
	o.sharedWith, o.host = driver.OwnExternal, b.Mapped
	c := newDescriptor(inner(d).driver, o)
	return d.(core.PointerImporter).ImportPointer(uintptr(cAddress(c)), b.Size, core.FreeFunc(func() {
		freeDescriptor(c)
		if owner != nil {
			owner.Free()
		}
	}))
}

// imports calls f with the VkBuffer of a renderer, as each way to import it gives it to dlx. freed reports how often the
// owner was freed.
func imports(t *testing.T, f func(t *testing.T, r *renderer, d core.Device, x *core.Tensor)) {
	for name, how := range map[string]func(*renderer, core.Device, core.Owner) (*core.Tensor, error){
		"constructor": func(r *renderer, d core.Device, o core.Owner) (*core.Tensor, error) {
			return ImportBuffer(d, r.all, rendererSpec, o)
		},
		"descriptor": func(r *renderer, d core.Device, o core.Owner) (*core.Tensor, error) {
			m, err := r.byDescriptor(d, r.all, o)
			if err != nil {
				return nil, err
			}
			return core.Wrap(m, rendererSpec)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, d := wrapped(t)
			freed := 0
			x, err := how(r, d, core.FreeFunc(func() { freed++ }))
			if err != nil {
				t.Fatal(err)
			}
			f(t, r, d, x)
			if freed != 0 {
				t.Errorf("the owner was freed %d times while the tensor was open", freed)
			}
			if err := x.Close(); err != nil {
				t.Error(err)
			}
			if freed != 1 {
				t.Errorf("the owner was freed %d times after the last tensor was closed", freed)
			}
			if n := len(inner(d).objects) + len(inner(d).named); n != 0 {
				t.Errorf("%d objects are left", n)
			}
		})
	}
}

// The memory of a renderer is exported as memory of dlx is, from its place in the VkDeviceMemory.
func TestMemoryOfARendererIsExported(t *testing.T) {
	imports(t, func(t *testing.T, r *renderer, d core.Device, x *core.Tensor) {
		copy(r.mapped, pattern(rendererBytes, 5))
		b, _ := x.Buffer()
		m, err := d.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if m.Size != r.all.MemorySize || m.Offset != rendererOffset || m.Length != rendererBytes || m.MemoryType != r.all.MemoryType || m.Dedicated {
			t.Errorf("exported as %+v, of %+v", m, r.all)
		}
		if err := d.(core.MemoryExporter).EndExport(b); err != nil {
			t.Error(err)
		}
		other := opened(t)
		there, err := other.(core.MemoryImporter).ImportMemory(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		y := keep(t)(core.Wrap(there, rendererSpec))
		if got := get(t, other, y); !bytes.Equal(got, r.mapped) {
			t.Error("the import has not the renderer's bytes")
		}
		next := pattern(rendererBytes, 6)
		put(t, other, y, next)
		if !bytes.Equal(r.mapped, next) {
			t.Error("the renderer does not see what was written to the import")
		}
	})
}

// The host uses what a renderer has mapped, where it is.
func TestMappedMemoryOfARendererIsViewed(t *testing.T) {
	imports(t, func(t *testing.T, r *renderer, d core.Device, x *core.Tensor) {
		b, _ := x.Buffer()
		m, err := d.(core.HostViewer).HostView(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Free()
		if m.Handle != r.all.Mapped || m.Size != rendererBytes {
			t.Errorf("the view has %d bytes at %#x, not %d at %#x", m.Size, m.Handle, rendererBytes, r.all.Mapped)
		}
	})
}

// Nobody flushes what the host writes through a view, so memory that is not coherent has none; the device copies.
func TestMappedMemoryThatIsNotCoherent(t *testing.T) {
	r, d := wrapped(t)
	types := inner(d).physical.Memory
	types[r.all.MemoryType].Coherent = false
	t.Cleanup(func() { types[r.all.MemoryType].Coherent = true })
	x := keep(t)(ImportBuffer(d, r.all, rendererSpec, nil))
	b, _ := x.Buffer()
	_, err := d.(core.HostViewer).HostView(t.Context(), b)
	wantError(t, err, core.ErrNotSupported, "a view of memory that is not coherent")
	if described, _, err := BufferOf(x); err != nil || described.Mapped != 0 {
		t.Errorf("it is described to others as mapped at %#x, error %v", described.Mapped, err)
	}
	types[r.all.MemoryType].Coherent = true // for staging memory
	content := pattern(rendererBytes, 7)
	put(t, d, x, content)
	if got := get(t, d, x); !bytes.Equal(got, content) || !bytes.Equal(r.mapped, content) {
		t.Error("a copy has changed bytes")
	}
}

// Memory that was not allocated for export, or that is not known, is used on its VkDevice.
func TestMemoryOfARendererThatIsNotExported(t *testing.T) {
	r, d := wrapped(t)
	for name, b := range map[string]Buffer{
		"not for export": {Buffer: r.all.Buffer, Size: rendererBytes, Usage: driver.Usage, Memory: r.all.Memory, MemoryOffset: rendererOffset, MemorySize: r.all.MemorySize, MemoryType: r.all.MemoryType},
		"not known":      {Buffer: r.all.Buffer, Size: rendererBytes, Usage: driver.Usage},
	} {
		x := keep(t)(ImportBuffer(d, b, rendererSpec, nil))
		buffer, _ := x.Buffer()
		_, err := d.(core.MemoryExporter).ExportMemory(buffer, core.HandleOpaqueFD)
		wantError(t, err, core.ErrInvalid, name+": ExportMemory")
		wantError(t, d.(core.MemoryExporter).EndExport(buffer), core.ErrInvalid, name+": EndExport")
		_, err = d.(core.HostViewer).HostView(t.Context(), buffer)
		wantError(t, err, core.ErrNotSupported, name+": HostView")
		content := pattern(rendererBytes, 8)
		put(t, d, x, content)
		if !bytes.Equal(r.mapped, content) {
			t.Errorf("%s: the renderer does not see what dlx wrote", name)
		}
		got, _, err := BufferOf(x)
		if err != nil || got.SharedWith != driver.OwnNone || got.Device != r.handles.Device {
			t.Errorf("%s: BufferOf gives %+v, error %v", name, got, err)
		}
	}
}

// Tensors on one VkBuffer are known to share bytes, however often it was imported.
func TestAVkBufferThatIsImportedTwice(t *testing.T) {
	r, d := wrapped(t)
	half := core.Spec{DType: core.TypeUint8, Shape: []int64{rendererBytes / 2}}
	without := r.all
	without.Mapped = 0 // or else the addresses tell
	x, err := ImportBuffer(d, without, half, nil)
	if err != nil {
		t.Fatal(err)
	}
	half.Offset = 1
	y := keep(t)(ImportBuffer(d, without, half, nil))
	if _, err := backendkit.CheckCopy(x, y); !errors.Is(err, core.ErrLayout) {
		t.Errorf("a copy between tensors that overlap: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	content := pattern(rendererBytes/2, 9)
	put(t, d, y, content) // the other import still has it
	if !bytes.Equal(r.mapped[1:1+len(content)], content) {
		t.Error("the renderer does not see what dlx wrote")
	}

	m, err := r.byDescriptor(d, r.all, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	again, err := d.(core.PointerImporter).ImportPointer(m.Handle, 16, nil)
	if err != nil || again.Handle != m.Handle {
		t.Fatalf("the second import of a descriptor: %v", err)
	}
	again.Free()
	if inner(d).objects[m.Handle] == nil {
		t.Error("the object is gone with the second import, and the first is open")
	}
	(*(*descriptor)(unsafe.Pointer(&m.Handle))).size--
	_, err = d.(core.PointerImporter).ImportPointer(m.Handle, 16, nil)
	wantError(t, err, core.ErrInvalid, "a descriptor that has changed")
}

// What a renderer says of its VkBuffer is believed only as far as it can be checked, both ways.
// A VkBuffer that Go has imported is imported again by the handle that dlx gave it, whatever else it is for.
func TestAnImportedVkBufferIsImportedByItsHandle(t *testing.T) {
	for rule, coherent := range map[string]bool{"vertices": true, "memory that is not coherent": false} {
		t.Run(rule, func(t *testing.T) {
			r, d := wrapped(t)
			b := r.all
			b.Usage |= 0x80 // VK_BUFFER_USAGE_VERTEX_BUFFER_BIT
			types := inner(d).physical.Memory
			types[b.MemoryType].Coherent = coherent
			t.Cleanup(func() { types[b.MemoryType].Coherent = true })
			x, err := ImportBuffer(d, b, rendererSpec, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			buffer, err := x.Buffer()
			if err != nil {
				t.Fatal(err)
			}
			m, err := d.(core.PointerImporter).ImportPointer(buffer.Memory().Handle, rendererBytes, nil)
			if err != nil {
				t.Fatal(err)
			}
			m.Free()
		})
	}
}

func TestHostileVkBuffers(t *testing.T) {
	r, d := wrapped(t)
	types := inner(d).physical.Memory
	hidden := types[r.all.MemoryType]
	hidden.Visible, hidden.Coherent = false, false
	inner(d).physical.Memory = append(types[:len(types):len(types)], hidden)
	for rule, change := range map[string]func(*Buffer){
		"no VkBuffer":                     func(b *Buffer) { b.Buffer = 0 },
		"no bytes":                        func(b *Buffer) { b.Size = 0 },
		"a size that no memory has":       func(b *Buffer) { b.Size = math.MaxInt64 },
		"a size beyond the memory":        func(b *Buffer) { b.Size = b.MemorySize - rendererOffset + 1 },
		"an offset beyond the memory":     func(b *Buffer) { b.MemoryOffset = b.MemorySize + 1 },
		"an offset at the memory's end":   func(b *Buffer) { b.MemoryOffset = b.MemorySize },
		"an offset near the largest":      func(b *Buffer) { b.MemoryOffset = math.MaxInt64 },
		"no bytes of memory":              func(b *Buffer) { b.MemorySize = 0 },
		"memory beyond its heap":          func(b *Buffer) { b.MemorySize = inner(d).physical.Heaps[types[b.MemoryType].Heap] + 1 },
		"a memory type that is not one":   func(b *Buffer) { b.MemoryType = uint32(len(types)) + 1 },
		"the largest memory type":         func(b *Buffer) { b.MemoryType = math.MaxUint32 },
		"mapped, and not for the host":    func(b *Buffer) { b.MemoryType = uint32(len(types)) },
		"mapped beyond all addresses":     func(b *Buffer) { b.Mapped = math.MaxUint - 16 },
		"exported as a D3D resource":      func(b *Buffer) { b.ExportTypes |= 0x20 },
		"exported as all there is":        func(b *Buffer) { b.ExportTypes = math.MaxUint32 },
		"exported, of unknown memory":     func(b *Buffer) { b.Memory, b.MemoryOffset, b.MemorySize = 0, 0, 0 },
		"an offset in unknown memory":     func(b *Buffer) { b.Memory, b.ExportTypes, b.MemorySize = 0, 0, 0 },
		"dedicated, and not at its start": func(b *Buffer) { b.Dedicated = true },
		"shared with queue family 1":      func(b *Buffer) { b.SharedWith = 1 },
	} {
		b := r.all
		b.SharedWith = driver.OwnExternal
		change(&b)
		owner := core.FreeFunc(func() { t.Errorf("%s: the owner was freed", rule) })
		x, err := ImportBuffer(d, b, core.Spec{DType: core.TypeUint8, Shape: []int64{1}}, owner)
		wantError(t, err, core.ErrInvalid, rule)
		if err == nil {
			_ = x.Close()
		}
		c := newDescriptor(inner(d).driver, &object{
			buffer: b.Buffer, memory: b.Memory, offset: b.MemoryOffset, size: b.Size, whole: b.MemorySize, host: b.Mapped,
			sharedWith: b.SharedWith, exports: driver.Handles(b.ExportTypes), dedicated: b.Dedicated, memoryType: int(b.MemoryType),
		})
		m, err := d.(core.PointerImporter).ImportPointer(uintptr(cAddress(c)), 1, owner)
		wantError(t, err, core.ErrInvalid, rule+", by a descriptor")
		if err == nil {
			m.Free()
		}
		foreign := keep(t)(core.Wrap(core.Memory{ID: d.ID(), Handle: uintptr(cAddress(c)), Size: core.UnknownSize}, core.Spec{DType: core.TypeUint8, Shape: []int64{1}}))
		host := keep(t)(core.FromSlice([]byte{1}))
		wantError(t, d.Copy(t.Context(), nil, foreign, host), core.ErrInvalid, rule+", of a tensor that no device owns")
		freeDescriptor(c)
	}
	for rule, change := range map[string]func(*Buffer){
		"another VkDevice":            func(b *Buffer) { b.Device++ },
		"no usage":                    func(b *Buffer) { b.Usage = 0 },
		"without storage of shaders":  func(b *Buffer) { b.Usage &^= 0x20 },
		"a size below 0":              func(b *Buffer) { b.Size = -1 },
		"an offset below 0":           func(b *Buffer) { b.MemoryOffset = -1 },
		"memory of a size below 0":    func(b *Buffer) { b.MemorySize = -1 },
		"the smallest of all offsets": func(b *Buffer) { b.MemoryOffset = math.MinInt64 },
	} {
		b := r.all
		b.Device = r.handles.Device
		change(&b)
		_, err := ImportBuffer(d, b, rendererSpec, core.FreeFunc(func() { t.Errorf("%s: the owner was freed", rule) }))
		wantError(t, err, core.ErrInvalid, rule)
	}
	if n := len(inner(d).objects) + len(inner(d).named); n != 0 {
		t.Errorf("%d objects are left", n)
	}
}

// A spec that does not fit leaves the owner to the caller.
func TestImportBufferFails(t *testing.T) {
	r, d := wrapped(t)
	owner := core.FreeFunc(func() { t.Error("the owner was freed") })
	_, err := ImportBuffer(d, r.all, core.Spec{DType: core.TypeUint8, Shape: []int64{rendererBytes + 1}}, owner)
	wantError(t, err, core.ErrLayout, "a shape beyond the VkBuffer")
	if n := len(inner(d).objects) + len(inner(d).named); n != 0 {
		t.Errorf("%d objects are left", n)
	}
	_, err = ImportBuffer(nil, r.all, rendererSpec, owner)
	wantError(t, err, core.ErrInvalid, "no device")
	other := coretest.OpenSimulated(t, coretest.Options{})
	_, err = ImportBuffer(other, r.all, rendererSpec, owner)
	wantError(t, err, core.ErrDevice, "a device of another backend")
	_, err = ImportTimeline(other, 8)
	wantError(t, err, core.ErrDevice, "a timeline for a device of another backend")
	_, err = ImportTimeline(d, 0)
	wantError(t, err, core.ErrInvalid, "no VkSemaphore")
	closed, err := Wrap(context.Background(), r.handles)
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = ImportBuffer(closed, r.all, rendererSpec, owner)
	wantError(t, err, core.ErrClosed, "ImportBuffer after Close")
	_, err = ImportTimeline(closed, 8)
	wantError(t, err, core.ErrClosed, "ImportTimeline after Close")
}

// A device that is closed has no VkInstance that could be asked for what the driver exports.
func TestImportsAfterClose(t *testing.T) {
	d := open(t)
	b := Buffer{Buffer: 1, Size: 4096, Memory: 1, MemorySize: 4096, ExportTypes: uint32(driver.OpaqueFD), SharedWith: driver.OwnExternal, Usage: driver.Usage}
	c := newDescriptor(inner(d).driver, inner(d).objectFrom(b))
	defer freeDescriptor(c)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	owner := core.FreeFunc(func() { t.Error("the owner was freed") })
	for _, size := range []int64{0, 16} {
		_, err := d.(core.PointerImporter).ImportPointer(uintptr(cAddress(c)), size, owner)
		wantError(t, err, core.ErrClosed, "ImportPointer")
	}
	_, err := ImportBuffer(d, b, core.Spec{DType: core.TypeUint8, Shape: []int64{16}}, owner)
	wantError(t, err, core.ErrClosed, "ImportBuffer")
}

// Whoever takes a VkBuffer for the address of a DLVulkanBuffer learns what to call.
func TestAVkBufferIsNoAddress(t *testing.T) {
	r, d := wrapped(t)
	for _, p := range []uintptr{uintptr(r.all.Buffer), 0x10, 0x13} {
		_, err := d.(core.PointerImporter).ImportPointer(p, 16, nil)
		wantError(t, err, core.ErrInvalid, "a VkBuffer")
		if err != nil && !strings.Contains(err.Error(), "vulkan.ImportBuffer") {
			t.Errorf("the error does not name the constructor: %v", err)
		}
	}
}

// Streams and a renderer wait for each other by the renderer's own timeline, which stays the renderer's.
func TestTheTimelineOfARenderer(t *testing.T) {
	r, d := wrapped(t)
	own := inner(d).driver
	timeline, err := own.NewTimeline(false)
	if err != nil {
		t.Fatal(err)
	}
	defer own.DestroyTimeline(timeline)
	s, err := ImportTimeline(d, timeline)
	if err != nil {
		t.Fatal(err)
	}
	x := keep(t)(ImportBuffer(d, r.all, rendererSpec, nil))
	on, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WaitOn(on, 1); err != nil {
		t.Fatal(err)
	}
	content := pattern(rendererBytes, 10)
	host := keep(t)(core.FromSlice(bytes.Clone(content)))
	if err := d.Copy(t.Context(), on, x, host); err != nil {
		t.Fatal(err)
	}
	if err := s.Signal(on, 2); err != nil {
		t.Fatal(err)
	}
	// The renderer's VkQueue waits for the copy, whose stream waits for the renderer: the signal must not be behind
	// this in the VkQueue.
	last, err := own.NewTimeline(false)
	if err != nil {
		t.Fatal(err)
	}
	defer own.DestroyTimeline(last)
	if err := own.Submit(driver.Submission{Waits: []driver.Point{{Timeline: timeline, Value: 2}}, Signal: driver.Point{Timeline: last, Value: 1}}); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(r.mapped, content) {
		t.Error("the copy has not waited for the renderer")
	}
	if err := own.Signal(timeline, 1); err != nil {
		t.Fatal(err)
	}
	if reached, err := own.Wait(last, 1, time.Minute); !reached || err != nil {
		t.Fatalf("the renderer's VkQueue goes on: %v, error %v", reached, err)
	}
	if !bytes.Equal(r.mapped, content) {
		t.Error("the renderer has not waited for the copy")
	}
	if err := on.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if v, err := own.Counter(timeline); v != 2 || err != nil { // it was not destroyed
		t.Errorf("the renderer's semaphore has the value %d, error %v", v, err)
	}
}

// A conversion whose last dispatch cannot have its window is refused before the first one is enqueued.
func TestConversionsAreRefusedBeforeTheyBegin(t *testing.T) {
	r, d := wrapped(t)
	b := r.all
	b.Size = 1021 // not a multiple of 4
	m, err := r.byDescriptor(d, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	copy(r.mapped, pattern(rendererBytes, 7))
	shape := []int64{2, 2, 2, 2, 2, 2}
	strides := []int64{1, 5, 480, 20, 60, 240} // more axes than a dispatch has, and the last element at the end
	src := keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: shape, Strides: strides, Offset: 1020 - (1 + 5 + 480 + 20 + 60 + 240)}))
	dst := keep(t)(core.Empty(t.Context(), d, core.TypeFloat32, shape, core.AllocOptions{}))
	raw, err := dst.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	all := keep(t)(core.NewTensor(raw, core.Spec{DType: core.TypeUint8, Shape: []int64{4 * 64}}))
	before := pattern(4*64, 8)
	put(t, d, all, before)
	err = d.(core.Converter).ConvertOn(t.Context(), nil, dst, src, core.Scaling{Scale: []float32{2}})
	if !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("%v, want ErrNotSupported", err)
	}
	if !bytes.Equal(get(t, d, all), before) {
		t.Error("a part was converted")
	}
}
