// Package bareopencl copies in a loop of clEnqueueWriteBuffer or clEnqueueReadBuffer, by OpenCL's API alone. It is the
// baseline for copies of dlx between the host and an OpenCL device.
//
// Without cgo, and on other systems than Linux, [Open] fails and says why.
package bareopencl
