package gpuconvert

import _ "embed"

//go:embed convert.wgsl
var wgsl string

// WGSL returns the shader in WebGPU's language, with the entry main. Bindings 0 and 1 are the windows, and binding 2 is a
// read-only storage buffer with the Constants.
func WGSL() string { return wgsl }
