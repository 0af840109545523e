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

func (g gl) read(name uint32, n int) []byte {
	data := make([]byte, n)
	g.Call("glBindBuffer", copyWrite, name)
	g.Call("glGetBufferSubData", copyWrite, 0, n, &data[0])
	return data
}

// "OpenGL Interoperability" and "Graphics Interoperability": the buffer's bytes are
// CUDA's while it is mapped, OpenGL's otherwise.
func TestABufferOfOpenGLGoesThereAndBack(t *testing.T) {
	d := gpusimtest.Start(t)
	g := newGL(t)
	stream := d.NewStream()
	name := g.buffer(gpusimtest.Pattern(6, 3*page))
	var resource, ptr, size uint64
	d.OK("cuGraphicsGLRegisterBuffer", &resource, name, 0)
	d.Want(gpusimtest.NotMapped, "cuGraphicsResourceGetMappedPointer_v2", &ptr, &size, resource)
	d.Want(gpusimtest.NotMapped, "cuGraphicsUnmapResources", 1, &resource, stream)

	d.OK("cuGraphicsMapResources", 1, &resource, stream)
	d.Want(gpusimtest.AlreadyMapped, "cuGraphicsMapResources", 1, &resource, stream)
	d.OK("cuGraphicsResourceGetMappedPointer_v2", &ptr, &size, resource)
	if size != 3*page {
		t.Errorf("the buffer has %d bytes", size)
	}
	d.Want(gpusimtest.InvalidValue, "cuMemFree_v2", ptr)
	d.Holds(ptr, gpusimtest.Pattern(6, 3*page))
	d.OK("cuMemsetD8Async", ptr+page, 0x5A, page, stream)
	d.OK("cuGraphicsUnmapResources", 1, &resource, stream)

	want := gpusimtest.Pattern(6, 3*page)
	copy(want[page:], bytes.Repeat([]byte{0x5A}, page))
	if !bytes.Equal(g.read(name, 3*page), want) {
		t.Error("OpenGL does not find what CUDA wrote")
	}
	d.OK("cuGraphicsUnregisterResource", resource)
	d.WantMisuse(gpusimtest.InvalidHandle, "cuGraphicsUnregisterResource", resource)
}

// cuGraphicsGLRegisterBuffer: CU_GRAPHICS_REGISTER_FLAGS_READ_ONLY and WRITE_DISCARD.
func TestAMappingIsOfTheKindThatWasRegistered(t *testing.T) {
	d := gpusimtest.Start(t)
	g := newGL(t)
	stream := d.NewStream()
	before := gpusimtest.Pattern(1, page)
	name := g.buffer(before)
	var resource, ptr, size uint64
	d.OK("cuGraphicsGLRegisterBuffer", &resource, name, readOnlyMap)
	d.OK("cuGraphicsMapResources", 1, &resource, stream)
	d.OK("cuGraphicsResourceGetMappedPointer_v2", &ptr, &size, resource)
	d.Holds(ptr, before)
	d.OK("cuMemsetD8Async", ptr, 1, page, stream)
	d.OK("cuGraphicsUnmapResources", 1, &resource, stream)
	if !bytes.Equal(g.read(name, page), before) {
		t.Error("what was written to a buffer that is mapped for reading arrived")
	}
	d.OK("cuGraphicsUnregisterResource", resource)

	d.OK("cuGraphicsGLRegisterBuffer", &resource, name, discardingMap)
	d.OK("cuGraphicsMapResources", 1, &resource, stream)
	d.OK("cuGraphicsResourceGetMappedPointer_v2", &ptr, &size, resource)
	d.Holds(ptr, bytes.Repeat([]byte{freshlyTouched}, page))
	d.OK("cuGraphicsUnmapResources", 1, &resource, stream)
	d.OK("cuGraphicsUnregisterResource", resource)
}

// cuGraphicsUnmapResources waits for the work "in stream", for no other.
func TestUnmappingWaitsForItsStream(t *testing.T) {
	d := gpusimtest.Start(t)
	g := newGL(t)
	stream := d.NewStream()
	name := g.buffer(gpusimtest.Pattern(2, page))
	var resource, ptr, size uint64
	d.OK("cuGraphicsGLRegisterBuffer", &resource, name, 0)
	d.OK("cuGraphicsMapResources", 1, &resource, stream)
	d.OK("cuGraphicsResourceGetMappedPointer_v2", &ptr, &size, resource)
	d.Call("dlx_gpusim_hold", 1)
	defer d.Call("dlx_gpusim_hold", 0)
	d.OK("cuMemsetD8Async", ptr, 3, page, stream)
	d.OK("cuGraphicsUnmapResources", 1, &resource, stream)
	if got := g.read(name, page); !bytes.Equal(got, bytes.Repeat([]byte{3}, page)) {
		t.Errorf("OpenGL finds % x", got[:8])
	}
	d.OK("cuGraphicsUnregisterResource", resource)
}

func TestWhatIsNoBufferOfOpenGLIsRefused(t *testing.T) {
	d := gpusimtest.Start(t)
	var resource uint64
	d.Want(gpusimtest.InvalidGraphicsContext, "cuGraphicsGLRegisterBuffer", &resource, 1, 0)
	g := newGL(t)
	d.Want(gpusimtest.InvalidValue, "cuGraphicsGLRegisterBuffer", &resource, 0, 0)
	d.Want(gpusimtest.InvalidValue, "cuGraphicsGLRegisterBuffer", &resource, 4711, 0)
	name := g.buffer(gpusimtest.Pattern(1, page))
	d.Want(gpusimtest.InvalidValue, "cuGraphicsGLRegisterBuffer", &resource, name, 99)

	d.OK("cuGraphicsGLRegisterBuffer", &resource, name, 0)
	d.Want(gpusimtest.InvalidHandle, "cuGraphicsMapResources", 2, &[2]uint64{resource, resource}, nil)
	d.Want(gpusimtest.InvalidValue, "cuGraphicsMapResources", 0, nil, nil)
	d.OK("cuGraphicsMapResources", 1, &resource, nil)
	d.WantMisuse(gpusimtest.Success, "cuGraphicsUnregisterResource", resource)
}
