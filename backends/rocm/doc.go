// Package rocm is the backend for cards of AMD, by HIP's runtime. To build it, a program needs the build tag rocm, Linux,
// cgo and the headers of HIP, of version 5.2 or newer. The library libamdhip64 is opened when it is first needed.
//
// # Memory
//
// Plain memory lies on the card. With AllocOptions.Type, Alloc returns pinned host memory (core.DeviceROCMHost). With
// AllocOptions.HostVisible it returns managed memory, and the device's HostView returns it as memory of the host.
// DLPack has no type of its own for that, so both are memory of rocm:N there. ImportPointer takes managed memory of
// other libraries in the same way. Memory can be released while work on it is unfinished. The pool can give it at once
// to a stream that waits for that work on the card (AllocOptions.Stream). Memory for other APIs and processes must be
// allocated for export (AllocOptions.Export), and is not pooled. A pool keeps at most an eighth of the card's memory,
// and returns it to HIP as [TrimPools] says.
//
// Opaque descriptors and dma-bufs need a library of version 6.0 or newer. Import of Vulkan's memory does not.
// Handles for other processes (core.HandleIPC) are of core.VendorAMD. A process that imports memory of its own finds it by
// the bytes of the handle. If HIP gives other bytes at the second hipIpcGetMemHandle, the import fails with a core.Error.
//
// # Devices and threads
//
// HIP has one context for each device, which all libraries of a process share. Pointers and streams of PyTorch can
// therefore be used here. Any goroutine may call. A call restores the device that was current on its thread, leaves a
// stream capture of other code valid, and leaves no error for that code's hipGetLastError. ImportStream takes 0 as the
// device's default stream, as DLPack does for ROCm. It refuses 1 and 2, hipStreamLegacy and hipStreamPerThread.
//
// # Order
//
// Streams of all cards wait for each other's events on the card. HIP's runtime on Linux has no semaphores of other APIs:
// between a card's work and another API the host waits.
//
// # Kernels for strided copies
//
// Open loads machine code for the card's architecture, if dlx has it. Otherwise it compiles the text, once for each
// architecture and version of the compiler (libhiprtc), and keeps the code in the folder dlx/hip of os.UserCacheDir,
// unless DLX_HIP_LIBRARY or DLX_HIPRTC_LIBRARY names the library.
// Without a compiler Open succeeds, and strided copies within the card fail with core.ErrNotSupported.
package rocm
