// Package gpusim is a simulated CUDA driver, for tests on machines without a card: a shared
// library with the driver's own symbols (src, built by build.sh), which the backend opens where
// DLX_CUDA_LIBRARY names it, and this package, by which tests see and steer it.
//
// It is adverse: memory of a device cannot be touched by the host, work runs as late and in as odd
// an order as the documentation allows, what may fail by the documentation does fail, what was
// freed is never handed out soon, and what a driver need not survive is noted as misuse. It shares
// memory with Mesa's lavapipe, as a card's driver does with its own Vulkan. Its device is called
// "dlx simulated GPU", it is chosen only by name, and nothing is ever measured on it.
//
// The environment chooses, before the first call:
//
//   - DLX_GPUSIM_DEVICES: how many, 0 to 8; 2 by default
//   - DLX_GPUSIM_MEMORY: bytes of each; 1 GiB by default
//   - DLX_GPUSIM_SEED: of the order of work
//   - DLX_GPUSIM_UUID: of device 0; by default that of the CPU under Vulkan
//   - DLX_GPUSIM_INTEGRATED: 1 has the devices say that they share the host's memory
//   - DLX_GPUSIM_CONCURRENT: 0 keeps the host from managed memory while devices work
//   - DLX_GPUSIM_PEERS: 0 has no device reach another one's memory
//   - DLX_GPUSIM_REUSE: 1 has handles and addresses that were given back handed out again at once,
//     as drivers do; stale ones are then not found
//   - DLX_GPUSIM_ONE_QUEUE: 1 has all streams of a context share one queue
//   - DLX_GPUSIM_AS_CARD: 1 has Open find no simulator, so that tests do what they do on a card
//
// Not simulated: arrays and textures, captures that spread to other streams by events, graphs that
// are built by hand or looked into, memory of pools in graphs, pools shared between processes,
// memory of NUMA nodes and fabric handles, binary external semaphores, cubins (kernels are PTX),
// and multicast. Such calls are not exported, or answer CUDA_ERROR_NOT_SUPPORTED.
package gpusim
