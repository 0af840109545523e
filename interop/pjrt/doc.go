// Package pjrt shares tensors with PJRT, the runtime below JAX and XLA, by the package github.com/gomlx/go-xla/pjrt. It is
// a module of its own, and needs Go 1.26, as go-xla does.
//
// NewView makes a buffer of PJRT that shares the memory of a tensor, Tensor makes a tensor of a buffer, and Run executes
// a program on tensors. Nothing is copied:
//
//	results, err := pjrt.Run(ctx, client, program, x, y)
//
// # Ownership
//
// A view keeps the memory of its tensor open until Close. A tensor that was made of a buffer owns that buffer, and keeps
// PJRT from reusing or moving its memory. Close views and tensors before the client is destroyed.
//
// # Platforms
//
// The package needs cgo, and Linux or macOS. It is empty elsewhere, because go-xla's types are needed for its functions.
// It is tested on linux/amd64 with OpenXLA's plugin for the CPU. Memory of CUDA and ROCm is not tested.
package pjrt
