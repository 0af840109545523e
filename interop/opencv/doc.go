// Package opencv exchanges matrices of OpenCV (cv::Mat) with dlx without a copy, for programs that use OpenCV by
// gocv.io/x/gocv. Of that it only uses NewMat and Ptr: the version that fits the OpenCV of the system is the
// program's choice. It needs cgo, a C++ compiler and OpenCV's headers.
//
//	frame := gocv.IMRead("image.png", gocv.IMReadColor)
//	x, err := opencv.FromMat(&frame) // uint8 of shape (rows, columns, 3), in the order blue, green, red
//	frame.Close()                    // the tensor keeps the memory
//	y, report, err := exchange.To(ctx, x, card, exchange.Options{})
//
// The other way, [ToMat] makes each element of a tensor an element of one channel, and [ToImage] makes the last axis
// of a tensor the channels.
//
// Matrices of OpenCL (cv::UMat) and CUDA (cv::cuda::GpuMat) are not handled: gocv does not give their pointers.
package opencv
