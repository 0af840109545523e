module github.com/dlx-go/dlx/interop/onnxruntime

go 1.25.0

require (
	github.com/dlx-go/dlx v0.1.0
	github.com/yalue/onnxruntime_go v1.33.0 // ONNX Runtime's sessions; it needs version 1.29 of the C API or newer
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	golang.org/x/sys v0.47.0 // indirect
	gorgonia.org/cu v0.9.6 // indirect
)

replace github.com/dlx-go/dlx => ../..
