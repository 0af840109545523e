//go:build cgo && unix && asan

package onnxruntime

// The address sanitizer finds the function that throws exceptions of C++ at the start of the program, or not at all.
// ONNX Runtime throws some.

// #cgo LDFLAGS: -Wl,--no-as-needed -lstdc++
import "C"
