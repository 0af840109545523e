module github.com/dlx-go/dlx/interop/ffmpeg

go 1.25.0

require (
	github.com/asticode/go-astiav v0.16.0 // FFmpeg's frames; fits FFmpeg 5.1 of Debian 12
	github.com/dlx-go/dlx v0.1.0
)

require (
	github.com/asticode/go-astikit v0.42.0 // indirect
	github.com/ebitengine/purego v0.11.3 // indirect
	github.com/go-gl/gl v0.0.0-20231021071112-07e5d0ea2e71 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/vulkan-go/vulkan v0.0.0-20221209234627-c0a353ae26c8 // indirect
	golang.org/x/sys v0.47.0 // indirect
	gorgonia.org/cu v0.9.6 // indirect
)

replace github.com/dlx-go/dlx => ../..
