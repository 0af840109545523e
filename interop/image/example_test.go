package image_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"log"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	dlximage "github.com/dlx-go/dlx/interop/image"
)

// Decodes a picture and makes of a part of it what a network for images expects: float32 of shape (channels, height,
// width). Up to the conversion nothing is copied. Then the numbers become a picture again.
func Example() {
	m, err := png.Decode(bytes.NewReader(picture()))
	if err != nil {
		log.Fatal(err)
	}
	pixels, err := dlximage.From(m)
	check(err)
	defer pixels.Close()
	rows, err := pixels.Slice(0, 1, 3, 1) // crop: rows 1 and 2
	check(err)
	defer rows.Close()
	colors, err := rows.Slice(2, 0, 3, 1) // without alpha
	check(err)
	defer colors.Close()
	planes, err := colors.Permute(2, 0, 1)
	check(err)
	defer planes.Close()
	fmt.Println("cropped:", planes.DType(), planes.Shape(), planes.Layout().Strides())

	ctx := context.Background()
	input, err := planes.AsType(ctx, core.TypeFloat32)
	check(err)
	defer input.Close()
	numbers, err := core.Mutable[float32](input)
	check(err)
	for i := range numbers {
		numbers[i] = 255 - numbers[i]
	}
	fmt.Println("input:", input.DType(), input.Shape(), numbers[0])

	inverted, err := input.AsType(ctx, core.TypeUint8)
	check(err)
	defer inverted.Close()
	last, err := inverted.Permute(1, 2, 0) // View takes any strides
	check(err)
	defer last.Close()
	result, release, err := dlximage.View(last)
	check(err)
	defer release()
	fmt.Println("result:", result.Bounds(), result.At(0, 0))
	// Output:
	// cropped: uint8 [3 2 5] [1 20 4]
	// input: float32 [3 2 5] 245
	// result: (0,0)-(5,2) {245 235 225 255}
}

// Makes a batch of frames: planes of float32, with the mean subtracted and divided by the standard deviation. On a GPU, d is
// that device, and the pixels are uploaded as bytes.
func ExampleBatch() {
	ctx := context.Background()
	d, err := cpu.New().Open(ctx, core.CPU)
	check(err)
	defer d.Close()
	frames := []image.Image{image.NewRGBA(image.Rect(0, 0, 224, 224)), image.NewYCbCr(image.Rect(0, 0, 224, 224), image.YCbCrSubsampleRatio420)}
	batch, err := dlximage.Batch(ctx, frames, d, dlximage.BatchOptions{
		Scale:  []float32{1 / (255 * 0.229), 1 / (255 * 0.224), 1 / (255 * 0.225)},
		Offset: []float32{-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225},
	})
	check(err)
	defer batch.Close()
	fmt.Println(batch.DType(), batch.Shape())
	// Output: float32 [2 3 224 224]
}

// picture returns a PNG of 5 by 4 pixels.
func picture() []byte {
	m := image.NewNRGBA(image.Rect(0, 0, 5, 4))
	for y := range 4 {
		for x := range 5 {
			m.SetNRGBA(x, y, color.NRGBA{10, 20, 30, 200})
		}
	}
	m.SetNRGBA(0, 1, color.NRGBA{10, 20, 30, 250})
	var b bytes.Buffer
	check(png.Encode(&b, m))
	return b.Bytes()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
