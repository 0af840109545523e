// Package barewebgpu copies in a loop of WebGPU's calls: wgpuCommandEncoderCopyBufferToBuffer, wgpuQueueWriteBuffer and
// wgpuBufferMapAsync. It is the baseline for copies of dlx on WebGPU.
//
// Without cgo, and on other systems than Linux, [Open] fails and says why.
package barewebgpu
