// Package gl is for programs that draw with OpenGL. It makes tensors of the program's buffers, and gives the
// program's renderer the buffers of tensors, including those that Vulkan allocated. It is built on package
// backends/gl. Both need the build tag gl, on Linux with cgo.
//
// # A renderer
//
// An OpenGL context is current on one thread, and calls from any goroutine must reach that thread. The thread
// that draws makes a [Loop], wraps its context with it, and polls the loop once a frame:
//
//	runtime.LockOSThread()
//	// ... make a context current: of a window, or by gl.NewContext ...
//	loop := gl.NewLoop()
//	device, err := gl.Wrap(loop.Run)
//	// ...
//	for draw() {
//		err = loop.Poll() // core.ErrInvalid if this is another thread
//	}
//	err = loop.Call(device.Close)
//
// The device is like any other: exchange moves tensors to it, and goroutines copy on its streams.
//
// The drawing thread may wait for the device's work by [core.Values], or by WaitReady of a tensor. While it
// waits, it also runs the calls of other goroutines. It must not wait in other ways for work that needs the
// loop, such as work of another device that comes after work of this one. It enqueues such work on streams,
// or lets [Loop.Call] run what blocks.
//
// If the loop is not polled, calls wait until their ctx ends. A call that has not started by then never runs.
// Memory that OpenGL commands may still use stays allocated until a later poll finds that they are done.
// Calls without a ctx, such as Close, fail with core.ErrInvalid after 5 seconds without a poll. What they
// were to close stays open, and can be closed again.
//
// # Buffers as tensors, tensors as buffers
//
// [Import] makes a tensor of a buffer of the program. [Name] returns the buffer of a tensor and the offset of
// its first element, to draw from or to write to. The device's [core.MemoryImporter] makes a buffer of memory
// that Vulkan exported; exchange uses it. No byte is copied.
//
// # Buffers that CUDA uses
//
// With the build tag cuda too, CUDA can use an OpenGL buffer for a time. [RegisterCUDA] registers the buffer
// with a CUDA device, Map returns a tensor on it, and Unmap returns it to OpenGL, in order with the work of
// both sides. No byte is copied.
//
//	card, err := gl.CUDADevice(ctx, loop.Run) // the CUDA device on the card of the context
//	device, err := cuda.New().Open(ctx, card)
//	shared, err := gl.RegisterCUDA(loop.Run, device, buffer, gl.ReadWrite)
//	// ...
//	x, err := shared.Map(ctx, stream, core.Spec{DType: core.TypeFloat32, Shape: []int64{n}})
//	// ... copies and kernels on x ...
//	err = x.Close()
//	err = shared.Unmap(ctx, stream)
//
// # Order
//
// dlx issues its commands in the program's OpenGL context. OpenGL runs them and the program's own commands in
// the order in which they are issued. The program must still do this:
//
//   - Before it draws from a tensor, wait until the tensor is ready, by [Loop.Call] and WaitReady of the tensor.
//     Or skip the tensor for this frame while its Ready event is not Done.
//   - After commands that read a tensor, record an event on a stream of the device, and pass it to Used of
//     the tensor's buffer; after commands that write it, to Wrote. The event covers these commands too.
//     Nothing else tells other users of the tensor about them.
//
// Shaders that write a buffer need no glMemoryBarrier for dlx, which issues one before and one after its
// commands.
//
// Other APIs wait for such an event on the host. Where the driver has GL_NV_timeline_semaphore,
// [core.SemaphoreImporter] lets them wait on the device.
package gl
