// Command classify asks Triton's server which digits images show. The images travel through shared memory.
//
//	go run ./examples/classify -server localhost:8001 examples/classify/images/*.png
//
// The images are gray and have 8 by 8 pixels. The model digits, which examples/server runs, takes batches of them, with values from
// 0 to 16, and returns a score for each digit.
package main

import (
	"context"
	"flag"
	"fmt"
	"image"
	_ "image/png"
	"io"
	"log"
	"os"
	"time"

	"github.com/dlx-go/dlx/core"
	dlximage "github.com/dlx-go/dlx/interop/image"
	"github.com/dlx-go/dlx/interop/triton"
)

const side = 8 // pixels

func main() {
	log.SetFlags(0)
	server := flag.String("server", "localhost:8001", "the target of the server's gRPC")
	model := flag.String("model", "digits", "the name of the model")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := classify(ctx, os.Stdout, *server, *model, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// classify prints the digit of each file.
func classify(ctx context.Context, out io.Writer, server, model string, files []string) (err error) {
	if len(files) == 0 {
		return fmt.Errorf("no files: name images of digits")
	}
	client, err := triton.Dial(server, triton.Options{})
	if err != nil {
		return err
	}
	defer func() {
		if closed := client.Close(); err == nil {
			err = closed
		}
	}()
	// The batch lies in memory that the server opens, and the images are decoded into it.
	batch, err := client.Empty(ctx, core.TypeUint8, []int64{int64(len(files)), side, side})
	if err != nil {
		return err
	}
	defer batch.Close()
	for i, name := range files {
		if err := read(ctx, name, batch, int64(i)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	result, err := client.Infer(ctx, model, map[string]*core.Tensor{"IMAGE": batch}, triton.InferOptions{Outputs: []triton.Output{{Name: "SCORES"}}})
	if err != nil {
		return err
	}
	defer result.Close()
	scores := result.Outputs["SCORES"]
	if s := scores.Shape(); len(s) != 2 || s[0] != int64(len(files)) || s[1] == 0 {
		return fmt.Errorf("the model returned scores of shape %v for %d images", s, len(files))
	}
	values, err := core.Values[float32](scores)
	if err != nil {
		return err
	}
	classes := len(values) / len(files)
	for i, name := range files {
		fmt.Fprintf(out, "%s: %d\n", name, largest(values[i*classes:(i+1)*classes]))
	}
	fmt.Fprintln(out, result.Reports[0])
	return nil
}

// largest returns the index of the largest value.
func largest(s []float32) (index int) {
	for i, x := range s {
		if x > s[index] {
			index = i
		}
	}
	return index
}

// read decodes an image into a row of the batch.
func read(ctx context.Context, name string, batch *core.Tensor, row int64) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	m, _, err := image.Decode(f)
	if err != nil {
		return err
	}
	gray, ok := m.(*image.Gray)
	if !ok || gray.Bounds().Dx() != side || gray.Bounds().Dy() != side {
		return fmt.Errorf("the image is %T of %v, and the model takes gray ones of %d by %d", m, m.Bounds().Size(), side, side)
	}
	pixels, err := dlximage.From(gray) // shape (8, 8, 1), on the pixels of the image
	if err != nil {
		return err
	}
	defer pixels.Close()
	flat, err := pixels.Squeeze(2)
	if err != nil {
		return err
	}
	defer flat.Close()
	dst, err := batch.Index(0, row)
	if err != nil {
		return err
	}
	defer dst.Close()
	return core.Convert(ctx, dst, flat) // of one type: the elements are copied
}
