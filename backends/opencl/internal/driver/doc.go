// Package driver is the ABI of OpenCL: libOpenCL opened at run time, a table of
// its functions, and a Go function for each call that dlx makes. It decides
// nothing; a [Status] is what the driver answered.
//
// Handles are the API's own, as integers. Every reference that was made or taken
// here is counted in core.Live until it is released, by kind: "opencl.cl_mem".
//
// The Khronos headers are needed to build it, with the tag opencl, cgo and Linux;
// the library only to call it.
package driver
