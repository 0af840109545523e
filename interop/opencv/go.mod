module github.com/dlx-go/dlx/interop/opencv

go 1.25.0

require (
	github.com/dlx-go/dlx v0.1.0
	gocv.io/x/gocv v0.31.0 // OpenCV's matrices; fits OpenCV 4.6 of Debian 12
)

replace github.com/dlx-go/dlx => ../..
