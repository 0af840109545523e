// Package driver is the ABI of OpenCL: libOpenCL, opened at run time, a table of its functions, and a Go
// function for each call that dlx makes. It makes no decisions; a [Status] is the code that the driver
// returned.
//
// Handles are those of the API, as integers. core.Live counts every reference that was made here until it is
// released, by kind: "opencl.cl_mem".
//
// Building it needs the Khronos headers, the tag opencl, cgo and Linux. Only calling it needs the library.
package driver
