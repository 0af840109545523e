// Package gpusim is a simulated CUDA driver, for tests on machines without a GPU. The driver is a shared library
// with the real driver's symbols (src, built by build.sh), which the CUDA backend opens if DLX_CUDA_LIBRARY names
// it. By this package tests inspect and control the library.
//
// The simulation is deliberately difficult. The host cannot touch a device's memory. Work runs as late, and
// in as unusual an order, as CUDA's documentation allows. What may fail by the documentation does fail. Freed
// addresses and handles are not reused soon. Calls that a driver need not survive are recorded as misuse.
//
// It shares memory with Mesa's lavapipe, as an NVIDIA driver does with its own Vulkan. Its device is called
// "dlx simulated GPU", it is used only if a variable names it, and no benchmark measures it.
//
// These environment variables configure it. They are read at the first call:
//
//   - DLX_GPUSIM_DEVICES: the number of devices, 0 to 8; 2 by default
//   - DLX_GPUSIM_MEMORY: bytes of memory of each device; 1 GiB by default
//   - DLX_GPUSIM_SEED: the seed for the order of work
//   - DLX_GPUSIM_UUID: the UUID of device 0; by default that of the CPU under Vulkan
//   - DLX_GPUSIM_MIG: with 1 each device is an instance of a larger one, whose UUID the older
//     function returns
//   - DLX_GPUSIM_INTEGRATED: with 1 the devices report that they share the host's memory
//   - DLX_GPUSIM_READ_ONLY_HOST: with 1 cuMemHostRegister takes memory that the host cannot write, for
//     devices that only read it; by default no flag registers such memory
//   - DLX_GPUSIM_CONCURRENT: with 0 the host cannot use managed memory while devices work
//   - DLX_GPUSIM_PEERS: with 0 no device reaches another one's memory
//   - DLX_GPUSIM_REUSE: with 1 freed handles and addresses are reused at once, as drivers do; uses of stale
//     ones are then not detected
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
// Not simulated: arrays and textures, captures that spread to other streams by events, graphs that are built
// or inspected by hand, pool memory in graphs, pools shared between processes, access of the host to memory of
// a NUMA node, fabric handles, dma-bufs of a part of an allocation or of memory that can also be exported as an
// opaque descriptor, binary external semaphores, cubins (kernels are PTX), and multicast. Such functions are not
// exported, or return CUDA_ERROR_NOT_SUPPORTED. Loading a cubin fails with CUDA_ERROR_NO_BINARY_FOR_GPU.
package gpusim
