//go:build cgo && unix

package onnxruntime_test

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"log"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/interop/onnxruntime"
	"github.com/dlx-go/dlx/tensorfile"
	ort "github.com/yalue/onnxruntime_go"
)

// An image of a handwritten digit is classified. ONNX Runtime reads the pixels where the image has them, and writes the
// class into a Go slice.
func Example() {
	lib, err := onnxruntime.Open(libraryPath) // such as libonnxruntime.so
	check(err)
	defer lib.Close()
	session, err := ort.NewDynamicAdvancedSessionWithONNXData(classifier(digitMeans()), nil, nil, nil)
	check(err)
	defer session.Destroy()

	picture := image.NewGray(image.Rect(0, 0, 8, 8))
	for y := range 8 { // a one
		picture.SetGray(3, y, color.Gray{Y: 14})
		picture.SetGray(4, y, color.Gray{Y: 16})
	}
	pixels, err := core.FromSlice(picture.Pix, 1, 8, 8) // one image of 8 x 8 pixels
	check(err)
	defer pixels.Close()
	class := make([]int64, 1)
	result, err := core.FromSlice(class)
	check(err)
	defer result.Close()

	binding, err := lib.Bind(session)
	check(err)
	defer binding.Close()
	check(binding.BindInput("image", pixels))
	check(binding.BindOutput("class", result))
	check(binding.Run(context.Background(), nil))
	fmt.Println("it is a", class[0])
	// Output: it is a 1
}

// digitMeans returns the mean images of the digits from 0 to 9.
func digitMeans() []float32 {
	file, err := tensorfile.Open("../../testdata/digits.safetensors", tensorfile.OpenOptions{})
	check(err)
	defer file.Close()
	means, err := file.Tensor("mean")
	check(err)
	defer means.Close()
	values, err := core.ToSlice[float32](context.Background(), means)
	check(err)
	return values
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
