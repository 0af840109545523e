package triton_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/interop/triton"
)

// A program sends 12 MiB to a model, of which only the place travels, and reads the answer where the server wrote it.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := triton.Dial("localhost:8001", triton.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	image, err := c.Empty(ctx, core.TypeFloat32, []int64{1, 3, 1024, 1024})
	if err != nil {
		log.Fatal(err)
	}
	defer image.Close()
	pixels, err := core.Mutable[float32](image)
	if err != nil {
		log.Fatal(err)
	}
	for i := range pixels {
		pixels[i] = float32(i%256) / 255
	}

	result, err := c.Infer(ctx, "classifier", map[string]*core.Tensor{"image": image}, triton.InferOptions{
		Outputs: []triton.Output{{Name: "scores", Size: 4000}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer result.Close()
	scores, err := core.Values[float32](result.Outputs["scores"])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(scores), "scores")
	for _, r := range result.Reports {
		fmt.Println(r)
	}
}
