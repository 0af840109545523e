// Command transpose maps a file, transposes its images without a copy, and copies
// them into memory of the CPU backend.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

func main() {
	ctx := context.Background()

	file, err := tensorfile.Open("testdata/digits.npy", tensorfile.OpenOptions{}) // mapped, not read
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	images, err := file.Tensor("digits") // read-only, like every view of it
	if err != nil {
		log.Fatal(err)
	}
	defer images.Close()

	transposed, err := images.Permute(0, 2, 1) // a view: no copy
	if err != nil {
		log.Fatal(err)
	}
	defer transposed.Close()

	cpu, err := all.New().Open(ctx, core.CPU)
	if err != nil {
		log.Fatal(err)
	}
	defer cpu.Close()

	dst, err := core.Empty(ctx, cpu, images.DType(), transposed.Shape(), core.AllocOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer dst.Close()
	if err := cpu.Copy(ctx, nil, dst, transposed); err != nil { // any strides; nil: done on return
		log.Fatal(err)
	}
	pixels, err := core.Values[float64](dst)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(dst, pixels[8:16])
}
