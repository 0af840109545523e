// Package gpusim has a simulated CUDA driver and a simulated library of HIP, for tests on machines without a GPU. Each is a
// shared library with the real one's symbols (src, built by build.sh). The CUDA backend opens the driver if
// DLX_CUDA_LIBRARY names it, the ROCm backend HIP's library if DLX_HIP_LIBRARY does. By this package tests inspect and
// control them. Both have the same engine, and share nothing when they are open in one process.
//
// The simulation is deliberately difficult. The host cannot touch a device's memory. Work runs as late, and
// in as unusual an order, as CUDA's documentation allows. What may fail by the documentation does fail. Freed
// addresses and handles are not reused soon. Calls that a driver need not survive are recorded as misuse.
//
// They share memory with Mesa's lavapipe or with SwiftShader, as a card's driver does with its own Vulkan. Their devices are called
// "dlx simulated GPU", they are used only if a variable names them, and no benchmark measures them.
//
// These environment variables configure them. They are read at the first call:
//
//   - DLX_GPUSIM_DEVICES: the number of devices, 0 to 8; 2 by default
//   - DLX_GPUSIM_MEMORY: bytes of memory of each device; 1 GiB by default
//   - DLX_GPUSIM_SEED: the seed for the order of work
//   - DLX_GPUSIM_UUID: the UUID of device 0; by default that of lavapipe or SwiftShader, whichever Vulkan has
//   - DLX_GPUSIM_PLAIN_FILES: with 1 memory that is shared has the layout of SwiftShader's files, with 0 that of Mesa's;
//     by default that of the Vulkan driver whose UUID device 0 has
//   - DLX_GPUSIM_MIG: with 1 each device is an instance of a larger one, whose UUID the older
//     function returns
//   - DLX_GPUSIM_INTEGRATED: with 1 the devices report that they share the host's memory
//   - DLX_GPUSIM_READ_ONLY_HOST: with 1 cuMemHostRegister takes memory that the host cannot write, for
//     devices that only read it; by default no flag registers such memory
//   - DLX_GPUSIM_CONCURRENT: with 0 the host cannot use managed memory while devices work
//   - DLX_GPUSIM_PEERS: with 0 no device reaches another one's memory
//   - DLX_GPUSIM_REUSE: with 1 freed handles and addresses are reused at once, as drivers do; uses of stale
//     ones are then not detected
//   - DLX_GPUSIM_LATEST: the microseconds after which work runs that nobody waits for; 5,000 by default. It runs after a
//     fifth of them at the earliest. With less, programs that wait for events are faster, and a missing wait shows less often
//   - DLX_GPUSIM_ONE_QUEUE: with 1 all streams of a context share one queue
//   - DLX_GPUSIM_DRAIN_LOCK: with 1, calls that free or unmap memory or change access to it wait for all work of
//     the process, and no other call returns before ("may perform implicit synchronization", cuMemFree;
//     "synchronous behavior for most use cases", cuMemSetAccess)
//   - DLX_GPUSIM_LAZY: with 1 loading a module waits for all work of the context, and so does loading a
//     function, in two steps: when it is found, and in cuFuncLoad or the first call that uses it
//   - DLX_GPUSIM_DMA_BUF: with 0 the devices export no memory as dma-bufs
//   - DLX_GPUSIM_BATCH: with 12 there is only the older cuMemcpyBatchAsync, of CUDA 12.8, and with 0 none, as in older
//     drivers: the function returns CUDA_ERROR_NOT_SUPPORTED
//   - DLX_GPUSIM_IPC_EVENTS: with 0 the devices report that other processes cannot open their events
//   - DLX_GPUSIM_AS_CARD: with 1 [Open] finds no simulator, so that tests do what they do on a GPU
//
// HIP's library has these, too:
//
//   - DLX_GPUSIM_HIP_VERSION: 5, 6 or 7, the major version that the library plays; 6 by default. The structures, the
//     numbers of the kinds of memory, the last error and some functions differ
//   - DLX_GPUSIM_HIP_MINOR: the minor version, from 0 to 99; by default one that the major version has
//   - DLX_GPUSIM_HIP_ARCH: the architecture of the devices, as in gcnArchName; "gfx90a:sramecc+:xnack-" by default
//   - DLX_GPUSIM_HIP_UUID: with "serial" the UUIDs are 16 hexadecimal digits, as on AMD's cards. By default they are
//     those of the CUDA driver, so that device 0 is the CPU under Vulkan
//   - DLX_GPUSIM_HIP_VMM: with 0 the devices have no virtual memory management. HIP 5 never has it
//   - DLX_GPUSIM_HIP_SEMAPHORES: with 1 timelines of Vulkan can be imported, which AMD's library refuses on Linux
//   - DLX_GPUSIM_CXX: the compiler behind hiprtc, which must be GCC's; g++ by default
//
// The devices of HIP are at the PCI addresses 0000:c3:00.0, 0000:c4:00.0 and so on. Its kernels run as code of the host,
// which hiprtc compiles, and each access to memory is checked. Code for AMD's processors never runs: a code object must be
// for the architecture of the device, and then the kernels of backends/internal/gpucopy and gpuconvert run, which build.sh has compiled
// for the host.
//
// They have the functions that dlx calls, those that libraries and programs of the tests call, and those that the
// simulators' own tests need for these; nothing else of CUDA and HIP. Not simulated, for example: arrays and textures,
// captures that spread to other streams by events, graphs that are launched or inspected, memory pools beside the one
// that each device has, access of the host to memory of a NUMA node, fabric handles, dma-bufs of a part of an allocation or of memory that can also be exported as an
// opaque descriptor, binary external semaphores, cubins (kernels are PTX), and multicast. Such functions are not
// exported, or return CUDA_ERROR_NOT_SUPPORTED. Loading a cubin fails with CUDA_ERROR_NO_BINARY_FOR_GPU. Of HIP also not:
// contexts (hipCtx*), graphics resources, shared memory whose size the launch gives, name expressions of hiprtc, bundles
// of several code objects, and dma-bufs of other memory than that of hipMemCreate.
package gpusim
