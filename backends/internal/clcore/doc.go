// Package clcore is what the backends opencl and oneapi have in common, which both call OpenCL: devices, queues,
// events, semaphores, copies and pools. They differ in what memory is: a cl_mem, or an address in unified shared
// memory. Each backend's package has its documentation and its API.
package clcore
