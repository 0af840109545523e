// Package wgpu calls a library with the C API of WebGPU, which it opens at run time. It needs four functions that are
// wgpu-native's and not the standard's: wgpuDevicePoll, wgpuInstanceEnumerateAdapters and wgpuGetVersion of wgpu.h, and that
// callbacks of wgpuAdapterRequestDevice and wgpuDevicePopErrorScope come before the call returns.
package wgpu
