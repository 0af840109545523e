// Package faults makes calls of WebGPU fail, for tests: it stands between the table of package wgpu and the library. It
// also counts the objects that the library has handed out.
package faults
