// Package interposer builds, for tests, a library that stands before ONNX Runtime's. It counts calls and open objects, lets a call
// fail, and has a provider for CUDA, which the library for the CPU lacks.
package interposer
