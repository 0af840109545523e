//go:build cgo && unix

package pjrt_test

import (
	"fmt"
	"log"
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/interop/pjrt"
	"github.com/dlx-go/dlx/tensorfile"
)

// nearest scores images of digits: the score of a class is largest if its mean image is the nearest.
const nearest = `module @nearest {
  func.func @main(%images: tensor<1797x8x8xf64>, %means: tensor<10x8x8xf32>) -> tensor<1797x10xf64> {
    %x = stablehlo.reshape %images : (tensor<1797x8x8xf64>) -> tensor<1797x64xf64>
    %wide = stablehlo.convert %means : (tensor<10x8x8xf32>) -> tensor<10x8x8xf64>
    %m = stablehlo.reshape %wide : (tensor<10x8x8xf64>) -> tensor<10x64xf64>
    %xm = stablehlo.dot_general %x, %m, contracting_dims = [1] x [1] : (tensor<1797x64xf64>, tensor<10x64xf64>) -> tensor<1797x10xf64>
    %mm = stablehlo.multiply %m, %m : tensor<10x64xf64>
    %zero = stablehlo.constant dense<0.0> : tensor<f64>
    %sum = stablehlo.reduce(%mm init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<10x64xf64>, tensor<f64>) -> tensor<10xf64>
    %half = stablehlo.constant dense<0.5> : tensor<10xf64>
    %bias = stablehlo.multiply %sum, %half : tensor<10xf64>
    %all = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<10xf64>) -> tensor<1797x10xf64>
    %scores = stablehlo.subtract %xm, %all : tensor<1797x10xf64>
    return %scores : tensor<1797x10xf64>
  }
}`

// XLA classifies handwritten digits. It reads the pages of the mapped file, and the scores are read where XLA wrote them.
func Example() {
	classifier, err := client.Compile().WithStableHLO([]byte(nearest)).Done() // a client of go-xla
	check(err)
	defer classifier.Destroy()
	images := read("../../testdata/digits.npy", "digits")
	defer images.Close()
	stored := read("../../testdata/digits.safetensors", "mean")
	defer stored.Close()
	means, err := stored.Clone(ctx) // XLA wants addresses that are multiples of 64
	check(err)
	defer means.Close()

	results, err := pjrt.Run(ctx, client, classifier, images, means)
	check(err)
	defer results[0].Close()
	scores, err := core.Values[float64](results[0])
	check(err)
	targets := read("../../testdata/digits_target.npy", "digits_target")
	defer targets.Close()
	digits, err := core.Values[int64](targets)
	check(err)
	right := 0
	for i, digit := range digits {
		row := scores[i*10 : i*10+10]
		if slices.Index(row, slices.Max(row)) == int(digit) {
			right++
		}
	}
	fmt.Println(right, "of", len(digits), "digits are right")
	// Output: 1626 of 1797 digits are right
}

func read(name, tensor string) *core.Tensor {
	file, err := tensorfile.Open(name, tensorfile.OpenOptions{})
	check(err)
	defer file.Close()
	t, err := file.Tensor(tensor)
	check(err)
	return t
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
