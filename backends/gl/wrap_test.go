//go:build gl && linux && cgo

package gl

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/core"
)

// makeBuffer makes a buffer in the context that run reaches.
func makeBuffer(tb testing.TB, run func(func()), content []byte, flags uint32) uint32 {
	tb.Helper()
	var name uint32
	run(func() {
		gl.CreateBuffers(1, &name)
		gl.NamedBufferStorage(name, len(content), gl.Ptr(content), flags)
	})
	tb.Cleanup(func() { run(func() { gl.DeleteBuffers(1, &name) }) })
	return name
}

func importBuffer(tb testing.TB, d core.Device, name uint32, size int64) *core.Tensor {
	tb.Helper()
	m, err := d.(core.PointerImporter).ImportPointer(uintptr(name), size, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return keep(tb)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{size}}))
}

func TestABufferWithoutDynamicStorageCanBeWritten(t *testing.T) {
	d, run := wrapped(t)
	t.Cleanup(func() { closeDevice(t, d) })
	name := makeBuffer(t, run, []byte("a buffer that nobody may set"), 0)
	buffer := importBuffer(t, d, name, 28)
	put(t, d, buffer, []byte("A BUFFER THAT NOBODY MAY SET"))
	if got := get(t, d, buffer); string(got) != "A BUFFER THAT NOBODY MAY SET" {
		t.Errorf("it holds %q", got)
	}
}

// The last word of a buffer whose size is odd is not whole: no shader reaches it.
func TestStridedCopiesReachTheEndOfAnOddBuffer(t *testing.T) {
	d := opened(t, asGPU)
	run := func(f func()) { _ = d.run(context.Background(), f) }
	const rows, columns = 51, 41
	content := make([]byte, rows*columns)
	for i := range content {
		content[i] = byte(i * 7)
	}
	src, dst := importBuffer(t, d, makeBuffer(t, run, content, 0), rows*columns), importBuffer(t, d, makeBuffer(t, run, content, 0), rows*columns)
	as := func(b *core.Tensor, strides ...int64) *core.Tensor {
		buffer, err := b.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		return keep(t)(core.NewTensor(buffer, core.Spec{DType: core.TypeUint8, Shape: []int64{rows, columns}, Strides: strides}))
	}
	if err := d.Copy(t.Context(), nil, as(dst), as(src, 1, rows)); err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 0, len(content))
	for i := range rows {
		for k := range columns {
			want = append(want, content[k*rows+i])
		}
	}
	if got := get(t, d, dst); !bytes.Equal(got, want) {
		t.Error("the transpose is wrong")
	}
}

func TestADeviceLeavesTheStateOfAWrappedContext(t *testing.T) {
	d, run := wrapped(t)
	t.Cleanup(func() { closeDevice(t, d) })
	inner := d.(*device)
	inner.info.software = false // so that a shader copies
	a := makeBuffer(t, run, make([]byte, 4096), 0)
	var program uint32
	state := func() state {
		var s state
		run(func() { s = saveState() })
		return s
	}
	run(func() {
		source, free := gl.Strs("#version 430\nlayout(local_size_x = 1) in;\nvoid main() {}\n\x00")
		program = gl.CreateShaderProgramv(gl.COMPUTE_SHADER, 1, source)
		free()
		gl.UseProgram(program)
		gl.BindBufferRange(gl.SHADER_STORAGE_BUFFER, 0, a, 256, 512)
		gl.BindBufferBase(gl.SHADER_STORAGE_BUFFER, 1, a)
		gl.BindBuffer(gl.SHADER_STORAGE_BUFFER, a)
	})
	before := state()
	src, dst := row(t, d, 100*100, core.AllocOptions{}), row(t, d, 100*100, core.AllocOptions{})
	square, err := src.Reshape(100, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer square.Close()
	turned, err := square.Transpose()
	if err != nil {
		t.Fatal(err)
	}
	defer turned.Close()
	whole, err := dst.Reshape(100, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	if err := d.Copy(t.Context(), nil, whole, turned); err != nil {
		t.Fatal(err)
	}
	frame := keep(t)(src.Reshape(2500, 4))
	if err := toPlanes(t, d, keep(t)(core.Empty(t.Context(), d, core.TypeFloat32, []int64{3, 2500}, core.AllocOptions{})), keep(t)(frame.Slice(1, 0, 3, 1))); err != nil {
		t.Fatal(err)
	}
	if after := state(); after != before || before.program != int32(program) || before.size[0] != 512 {
		t.Errorf("the context has %+v, had %+v", after, before)
	}
	if len(inner.programs) != 2 {
		t.Errorf("%d shaders were used, want one that copies and one that converts", len(inner.programs))
	}
	run(func() { gl.UseProgram(0); gl.DeleteProgram(program) })
}

func TestErrorsOfTheRendererAreNotTheDevices(t *testing.T) {
	d, run := wrapped(t)
	t.Cleanup(func() { closeDevice(t, d) })
	run(func() { gl.Enable(0xFFFF) })
	row(t, d, 100, core.AllocOptions{})
}

func TestAnEventOfAWrappedContextStandsForTheRenderersCommands(t *testing.T) {
	d, run := wrapped(t)
	t.Cleanup(func() { closeDevice(t, d) })
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	finished := &d.(*device).finished
	before := finished.Load()
	run(func() { gl.ClearColor(1, 1, 1, 1) })
	fences := 0
	inner := d.(*device)
	through := inner.run
	inner.run = func(ctx context.Context, f func()) error { fences++; return through(ctx, f) }
	e, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if fences == 0 || finished.Load() < before {
		t.Error("the event was passed without a look at a fence")
	}
}

func TestWhatCannotBeWrapped(t *testing.T) {
	if _, err := Wrap(nil); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Wrap(nil): %v", err)
	}
}

func TestImportPointerRefusesWhatIsNoBuffer(t *testing.T) {
	d, run := wrapped(t)
	t.Cleanup(func() { closeDevice(t, d) })
	importer := d.(core.PointerImporter)
	name := uintptr(makeBuffer(t, run, make([]byte, 100), 0))
	for _, c := range []struct {
		rule string
		p    uintptr
		size int64
	}{
		{"no name", 0, 16},
		{"a name that is larger than names are", 1 << 40, 16},
		{"a name that nobody made", 54321, 16},
		{"more than GL_BUFFER_SIZE", name, 101},
		{"a negative size", name, -1},
	} {
		freed := 0
		m, err := importer.ImportPointer(c.p, c.size, core.FreeFunc(func() { freed++ }))
		if !errors.Is(err, core.ErrInvalid) || freed != 0 {
			t.Errorf("%s: error %v, the owner was freed %d times", c.rule, err, freed)
		}
		if err == nil {
			m.Free()
		}
	}
	m, err := importer.ImportPointer(name, 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Free()
	var still bool
	if run(func() { still = gl.IsBuffer(uint32(name)) }); !still {
		t.Error("freeing an import deleted the renderer's buffer")
	}
}
