// Package wgpu calls a library with the C API of WebGPU, which it opens at run time. It needs what is
// wgpu-native's and not the standard's: wgpuDevicePoll, wgpuDeviceCreateShaderModuleTrusted, wgpuInstanceEnumerateAdapters and
// wgpuGetVersion of wgpu.h. Callbacks of wgpuAdapterRequestDevice and wgpuDevicePopErrorScope must come before the call returns.
package wgpu
