// Package gl is for programs that draw with OpenGL: buffers of theirs as tensors, and
// tensors, also those that Vulkan allocated, as buffers of theirs. The backend
// behind it is backends/gl; the build tag of both is gl, on Linux with cgo.
//
// # A renderer
//
// A context is current on one thread, and calls from any goroutine must get there.
// The thread that draws makes a [Loop], wraps its context with it, and polls the
// loop once a frame:
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
// The device is one like any other: exchange moves tensors to it, goroutines copy
// on its streams. The drawing thread itself may wait for the device's work, by
// [core.Values] or WaitReady of a tensor: it serves the loop meanwhile. It must not wait
// in other ways for what needs the loop, such as for work of another device that comes
// behind this one's: it enqueues on streams, or has [Loop.Call] run what blocks.
//
// Where nobody polls, calls wait until their context ends. What the thread has not begun by
// then it never runs; memory that commands of OpenGL may still use stays
// allocated until a later poll finds that they are done. Calls that have no context, as
// Close, fail with core.ErrInvalid after 5 seconds without a poll; what they were to close stays open, and
// can be closed again.
//
// # Buffers as tensors, tensors as buffers
//
// [Import] makes a tensor of a buffer of the program. [Name] tells the buffer of a
// tensor, with the offset of the first element, to draw from or write to. Memory
// that Vulkan exported becomes a buffer by the device's [core.MemoryImporter],
// which is what exchange uses: no byte is copied.
//
// # Buffers that CUDA uses
//
// CUDA takes a buffer of OpenGL over for a time: with the build tag cuda too,
// [RegisterCUDA] makes it known to a device of CUDA, Map gives a tensor on it, and
// Unmap gives it back, in order with the work of both sides. No byte is copied.
//
//	shared, err := gl.RegisterCUDA(loop.Run, device, buffer, gl.ReadWrite)
//	// ...
//	x, err := shared.Map(ctx, stream, core.Spec{DType: core.TypeFloat32, Shape: []int64{n}})
//	// ... copies and kernels on x ...
//	err = x.Close()
//	err = shared.Unmap(ctx, stream)
//
// # Order
//
// dlx issues its commands into the program's context, so that they are ordered with
// the program's own by the time at which they are issued. What remains:
//
//   - Before drawing from a tensor, wait until it is ready, by
//     loop.Call(func() error { return t.WaitReady(ctx) }), or skip it for this
//     frame while its Ready event is not Done.
//   - After commands that read a tensor, record an event on a stream of the device,
//     which then stands for these commands, too, and note it on the tensor's
//     buffer by Used; by Wrote after commands that write it. Without that, nobody
//     else knows of them.
//   - Shaders that write a buffer need no glMemoryBarrier for dlx, which makes one
//     before its commands and one behind them.
//
// Other APIs wait for such an event on the host. Where the driver has
// GL_NV_timeline_semaphore, [core.SemaphoreImporter] lets them wait on the device.
package gl
