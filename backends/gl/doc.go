// Package gl is the backend of OpenGL 4.5 and later: gl:0, gl:1 and so on are the
// devices that libEGL lists, in its order, each opened with a context without a window on
// a thread of its own. [Wrap] makes a device of a context of the caller's. Programs
// that draw find what they need in interop/gl.
//
// It is built with the tag gl, which is the only one needed, on Linux with cgo, from
// the headers of EGL and OpenGL (libegl-dev on Debian, with pkgconf, which go-gl asks
// for libGL). The program links neither library: libEGL is opened at run time, and a
// program that lacks it starts all the same. [New]'s Probe says what is missing.
//
// # A tensor
//
// The handle of memory is the name of a GL buffer, the offset counts from its first
// byte. DLPack has no number for OpenGL: core/dlpack refuses such tensors, carry
// them to another device by exchange first. Each allocation is a buffer with
// immutable storage. The host can view it (core.HostViewer) if it was allocated with
// HostVisible, and always on a software renderer: it is mapped from beginning to
// end, persistent and coherent. ImportPointer takes the name of a buffer that the
// program made; imported memory cannot be viewed.
//
// # Memory of Vulkan
//
// ImportMemory makes a GL buffer of an opaque descriptor by GL_EXT_memory_object_fd,
// where the UUIDs of device and driver are the same. The buffer begins with the
// allocation, whatever part is wanted, since llvmpipe of Mesa 22.3 ignores an
// offset. The allocation must be larger than what is used of it: the same driver
// wants room beyond a buffer and answers GL_OUT_OF_MEMORY where there is none; 64
// bytes are enough. OpenGL exports nothing itself: allocate on the other side.
//
// # Order
//
// Streams are queues of goroutine work ([stream.Queue]) that wait for events of
// anything. A piece of work issues its commands on the context's thread and is done
// when a fence behind them was passed; that is looked at now and then, so that the
// thread is free for others, whose commands the context runs in the order of issue.
// Each piece ends with a memory barrier and a fence, so that what it wrote is seen by
// shaders, by the host and by other APIs. Semaphores are counters of the host
// ([stream.Timeline]); those of Vulkan are imported where the driver has
// GL_EXT_semaphore_fd and GL_NV_timeline_semaphore. That last part runs on no
// driver that this project is tested with: a card decides.
//
// # Strided copies
//
// On a software renderer the host copies, in mapped memory or through a mapped copy
// of imported memory. On a GPU a copy of few or large pieces is made of plain copies,
// any other of a compute shader; between the host and memory that it does not see,
// elements travel packed. Single bits are the host's.
//
// # Errors
//
// An error of OpenGL names the call, the code and its name. A context that was lost
// (GL_CONTEXT_LOST, or a status of glGetGraphicsResetStatus) makes every later call
// fail with core.ErrDeviceLost; what was opened must still be closed.
package gl
