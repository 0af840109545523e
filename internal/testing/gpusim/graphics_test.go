//go:build linux && cgo

package gpusim_test

import (
	"bytes"
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

const (
	copyWrite      = 0x8F37 // GL_COPY_WRITE_BUFFER
	immutable      = 0      // the flags of glBufferStorage
	readOnlyMap    = 1      // CU_GRAPHICS_MAP_RESOURCE_FLAGS_READ_ONLY
	discardingMap  = 2      // CU_GRAPHICS_MAP_RESOURCE_FLAGS_WRITE_DISCARD
	surfaceless    = 0x31DD // EGL_PLATFORM_SURFACELESS_MESA
	openGL         = 0x30A2 // EGL_OPENGL_API
	freshlyTouched = 0xA5   // what device memory holds that nobody wrote
)

// gl is OpenGL with a context that is current on the test's thread.
type gl struct {
	t *testing.T
	*gpusimtest.Library
}

// newGL makes a context without a window, for the length of the test.
func newGL(t *testing.T) gl {
	t.Helper()
	egl, err := gpusimtest.Open("libEGL.so.1")
	if err != nil {
		t.Fatalf("%v\ninstall a driver (Debian: libegl1 libgl1-mesa-dri)", err)
	}
	functions, err := gpusimtest.Open("libOpenGL.so.0")
	if err != nil {
		t.Fatalf("%v\ninstall OpenGL (Debian: libopengl0)", err)
	}
	display := egl.Call("eglGetPlatformDisplay", surfaceless, nil, nil)
	if uint32(egl.Call("eglInitialize", display, nil, nil)) == 0 || uint32(egl.Call("eglBindAPI", openGL)) == 0 {
		t.Fatal("EGL has no display without a window")
	}
	context := egl.Call("eglCreateContext", display, nil, nil, nil)
	if context == 0 || uint32(egl.Call("eglMakeCurrent", display, nil, nil, context)) == 0 {
		t.Fatal("EGL makes no context of OpenGL")
	}
	t.Cleanup(func() {
		egl.Call("eglMakeCurrent", display, nil, nil, nil)
		egl.Call("eglDestroyContext", display, context)
	})
	return gl{t, functions}
}

// buffer makes a buffer that the host cannot write any more.
func (g gl) buffer(data []byte) (name uint32) {
	g.Call("glGenBuffers", 1, &name)
	g.Call("glBindBuffer", copyWrite, name)
	g.Call("glBufferStorage", copyWrite, len(data), &data[0], immutable)
	g.t.Cleanup(func() { g.Call("glDeleteBuffers", 1, &name) })
	return name
}

// holds fails the test unless OpenGL finds some bytes in a buffer.
func (g gl) holds(name uint32, want []byte) {
	g.t.Helper()
	data := make([]byte, len(want))
	g.Call("glBindBuffer", copyWrite, name)
	g.Call("glGetBufferSubData", copyWrite, 0, len(data), &data[0])
	if !bytes.Equal(data, want) {
		g.t.Errorf("OpenGL finds % x ...", data[:8])
	}
}

// mapped maps a resource, and returns where.
func mapped(d *driver, resource, stream uint64) (ptr, size uint64) {
	d.OK("cuGraphicsMapResources", 1, &resource, stream)
	d.OK("cuGraphicsResourceGetMappedPointer_v2", &ptr, &size, resource)
	return ptr, size
}

// "OpenGL Interoperability" and "Graphics Interoperability": the buffer's bytes are
// CUDA's while it is mapped, OpenGL's otherwise.
func TestABufferOfOpenGLGoesThereAndBack(t *testing.T) {
	d := gpusimtest.Start(t)
	g, stream, want := newGL(t), d.NewStream(), gpusimtest.Pattern(6, 3*page)
	name := g.buffer(want)
	resource := d.New("cuGraphicsGLRegisterBuffer", name, 0)
	d.Want(gpusimtest.NotMapped, "cuGraphicsResourceGetMappedPointer_v2", new(uint64), new(uint64), resource)
	d.Want(gpusimtest.NotMapped, "cuGraphicsUnmapResources", 1, &resource, stream)
	ptr, size := mapped(d, resource, stream)
	equal(t, "the size", size, 3*page)
	d.Want(gpusimtest.AlreadyMapped, "cuGraphicsMapResources", 1, &resource, stream)
	d.Want(gpusimtest.InvalidValue, "cuMemFree_v2", ptr)
	d.Holds(ptr, want)
	fill(d, ptr+page, 0x5A, page, stream)
	d.OK("cuGraphicsUnmapResources", 1, &resource, stream)
	copy(want[page:], bytes.Repeat([]byte{0x5A}, page))
	g.holds(name, want)
	d.OK("cuGraphicsUnregisterResource", resource)
	d.WantMisuse(gpusimtest.InvalidHandle, "cuGraphicsUnregisterResource", resource)
}

// cuGraphicsGLRegisterBuffer: CU_GRAPHICS_REGISTER_FLAGS_READ_ONLY and WRITE_DISCARD. cuGraphicsUnmapResources waits for the
// work "in stream", for no other.
func TestAMappingIsOfTheKindThatWasRegistered(t *testing.T) {
	d := gpusimtest.Start(t)
	g, stream, before := newGL(t), d.NewStream(), gpusimtest.Pattern(1, page)
	for _, c := range []struct {
		flags           int
		mapped, written []byte // what the device finds, and OpenGL afterwards
	}{
		{0, before, bytes.Repeat([]byte{3}, page)},
		{readOnlyMap, before, before},
		{discardingMap, bytes.Repeat([]byte{freshlyTouched}, page), bytes.Repeat([]byte{3}, page)},
	} {
		name := g.buffer(before)
		resource := d.New("cuGraphicsGLRegisterBuffer", name, c.flags)
		ptr, _ := mapped(d, resource, stream)
		d.Holds(ptr, c.mapped)
		release := d.Hold()
		fill(d, ptr, 3, page, stream)
		d.OK("cuGraphicsUnmapResources", 1, &resource, stream)
		release()
		g.holds(name, c.written)
		d.OK("cuGraphicsUnregisterResource", resource)
	}
}

func TestWhatIsNoBufferOfOpenGLIsRefused(t *testing.T) {
	d := gpusimtest.Start(t)
	d.Want(gpusimtest.InvalidGraphicsContext, "cuGraphicsGLRegisterBuffer", new(uint64), 1, 0)
	g := newGL(t)
	name := g.buffer(gpusimtest.Pattern(1, page))
	resource := d.New("cuGraphicsGLRegisterBuffer", name, 0)
	try(t, d, []attempt{
		{"no buffer", gpusimtest.InvalidValue, "cuGraphicsGLRegisterBuffer", []any{new(uint64), 0, 0}},
		{"no such buffer", gpusimtest.InvalidValue, "cuGraphicsGLRegisterBuffer", []any{new(uint64), 4711, 0}},
		{"no such flags", gpusimtest.InvalidValue, "cuGraphicsGLRegisterBuffer", []any{new(uint64), name, 99}},
		{"one twice", gpusimtest.InvalidHandle, "cuGraphicsMapResources", []any{2, &[2]uint64{resource, resource}, nil}},
		{"none", gpusimtest.InvalidValue, "cuGraphicsMapResources", []any{0, nil, nil}},
	})
	d.OK("cuGraphicsMapResources", 1, &resource, nil)
	d.WantMisuse(gpusimtest.Success, "cuGraphicsUnregisterResource", resource)
}
