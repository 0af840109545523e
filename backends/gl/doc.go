// Package gl is the backend of OpenGL 4.5 and later. Its devices gl:0, gl:1 and so on are those that libEGL
// lists, in its order. Each opened device has an OpenGL context without a window, on a thread of its own.
// [Wrap] makes a device of the caller's context. Programs that draw use package interop/gl.
//
// The backend needs only the tag gl. It is built on Linux with cgo, from the headers of EGL and OpenGL
// (libegl-dev on Debian, and pkgconf, by which go-gl finds libGL). The program is linked with neither
// library. libEGL is opened at run time, so a program starts without it, and Probe of the backend that [New]
// returns says what is missing.
//
// # Tensors
//
// The handle of memory is the name of a GL buffer, and the offset counts from the buffer's first byte. DLPack
// has no number for OpenGL: core/dlpack refuses such tensors, so move them to another device by exchange
// first.
//
// Each allocation is a buffer with immutable storage. The host can view it (core.HostViewer) if it was
// allocated with HostVisible, and always on a software renderer. Such a buffer is mapped as a whole,
// persistently and coherently. A device with a context of its own keeps freed buffers for reuse
// (core.PoolController). ImportPointer takes the name of a buffer that the program made; imported
// memory cannot be viewed.
//
// # Memory of Vulkan
//
// ImportMemory makes a GL buffer of an opaque descriptor by GL_EXT_memory_object_fd. The UUIDs of device and
// driver must be equal. The buffer always begins where the allocation begins, since llvmpipe of Mesa 22.3
// ignores an offset. The allocation must be larger than the part in use: the same driver needs room after a
// buffer, and reports GL_OUT_OF_MEMORY otherwise; 64 bytes are enough. OpenGL cannot export memory: allocate
// on the other device.
//
// # Order
//
// Streams are host queues ([stream.Queue]), which can wait for events of any device. A piece of work issues
// its commands on the context's thread, and is done when a fence after them is reached. The backend polls the
// fence, so that the thread stays free for other work. The OpenGL context runs commands in the order in which
// they are issued. Each piece ends with a memory barrier and a fence, so that shaders, the host and other
// APIs see what it wrote.
//
// Semaphores are counters on the host ([stream.Timeline]). Vulkan's semaphores are imported where the driver
// has GL_EXT_semaphore_fd and GL_NV_timeline_semaphore. No driver that this project is tested with has both,
// so importing them is untested.
//
// # Strided copies
//
// On a software renderer the host copies, in mapped memory, or through a mapped copy of imported memory. On a
// GPU, a copy of few or large pieces is made of plain copies, and any other copy by a compute shader. Between
// the host and memory that the host cannot see, elements travel packed. The host always copies single bits.
//
// # Errors
//
// An error of OpenGL names the call, the code and the code's name. After a context was lost (GL_CONTEXT_LOST,
// or a status of glGetGraphicsResetStatus) every call fails with core.ErrDeviceLost. What was opened must
// still be closed.
package gl
