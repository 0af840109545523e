// Package bareopencl copies in a loop of clEnqueueWriteBuffer, clEnqueueReadBuffer or clEnqueueMemcpyINTEL, by OpenCL's API
// alone. It is the baseline for copies of dlx between the host and an OpenCL device, and for those of oneAPI.
//
// Without cgo, and on other systems than Linux, [Open] fails and says why.
package bareopencl
