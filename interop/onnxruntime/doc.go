// Package onnxruntime shares tensors with ONNX Runtime, by the package github.com/yalue/onnxruntime_go. It is a module
// of its own.
//
// Library.Input and Library.Output make values of tensors, for any session of onnxruntime_go, and Library.Tensor makes a
// tensor of a value. Nothing is copied. Tensors may lie in host memory, and in memory of CUDA and ROCm, which
// onnxruntime_go does not offer itself. A Binding runs a session on such tensors, in order with other work on them:
//
//	lib, err := onnxruntime.Open("libonnxruntime.so")
//	session, err := ort.NewDynamicAdvancedSession("model.onnx", nil, nil, nil)
//	binding, err := lib.Bind(session)
//	err = binding.BindInput("image", image)
//	err = binding.AllocateOutput("scores", core.CPU)
//	err = binding.Run(ctx, nil)
//	scores, err := binding.Output("scores")
//
// # Ownership
//
// A value keeps the memory of its tensor open until Destroy, also if the program closes the tensor. A tensor that was
// made of a value owns that value. A library cannot be closed before its values, tensors and bindings.
//
// # Platforms
//
// The package needs cgo, and Linux or macOS. It is empty elsewhere, because onnxruntime_go's types are needed for its
// functions. It is tested on linux/amd64 with ONNX Runtime 1.32 for the CPU. Memory of CUDA and ROCm and streams of CUDA
// are tested with simulations only.
package onnxruntime
