package tensorfile_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

func Example() {
	f, err := tensorfile.Open("../testdata/digits.npy", tensorfile.OpenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()

	images, err := f.Tensor("digits")
	if err != nil {
		log.Fatal(err)
	}
	defer images.Close()

	pixels, err := core.Values[float64](images) // the file's own pages
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(images)
	fmt.Println(pixels[:8])
	// Output:
	// float64[1797 8 8] on cpu read-only
	// [0 0 5 13 9 1 0 0]
}

func ExampleFile_Tensors() {
	f, err := tensorfile.Open("../testdata/digits.safetensors", tensorfile.OpenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	for _, info := range f.Tensors() {
		fmt.Println(info.Name, info.DType, info.Shape, info.Bytes)
	}
	fmt.Println(f.Metadata())
	// Output:
	// target int64 [16] 128
	// total float64 [] 8
	// mean float32 [10 8 8] 2560
	// none float32 [0 8 8] 0
	// mean_bfloat bfloat16 [10 8 8] 1280
	// mean_half float16 [10 8 8] 1280
	// first_centred int8 [16 8 8] 1024
	// first uint8 [16 8 8] 1024
	// first_ink bool [16 8 8] 1024
	// map[source:scikit-learn digits]
}

// Two messages go over one connection. Any device of dlx can be at either end.
func ExampleRead() {
	ctx := context.Background()
	device, err := cpu.New().Open(ctx, core.CPU)
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	receiver, sender := net.Pipe()
	defer receiver.Close()

	go func() {
		defer sender.Close()
		for step := range 2 {
			grid, err := core.FromSlice([]float32{1, 2, 3, 4, 5, float32(step)}, 2, 3)
			if err != nil {
				log.Fatal(err)
			}
			err = tensorfile.Write(ctx, sender, tensorfile.Safetensors, []tensorfile.Named{{Name: "grid", Tensor: grid}}, tensorfile.WriteOptions{})
			if err != nil {
				log.Fatal(err)
			}
			grid.Close()
		}
	}()

	for {
		message, err := tensorfile.Read(ctx, receiver, device, tensorfile.ReadOptions{})
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		grid := message.Tensors["grid"] // in the memory of the device
		values, err := core.Values[float32](grid)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(grid, values)
		message.Close()
	}
	// Output:
	// float32[2 3] on cpu [1 2 3 4 5 0]
	// float32[2 3] on cpu [1 2 3 4 5 1]
}

func ExampleParse_refused() {
	_, err := tensorfile.Parse([]byte("\x93NUMPY\x01\x00\x36\x00{'descr': '<V2', 'fortran_order': False, 'shape': ()}\n"), "x.npy", tensorfile.OpenOptions{})
	fmt.Println(err)
	// Output:
	// npy: Open: not supported: "x.npy": descr is "<V2": raw void may be bfloat16, a float8 or anything else of that size: name its type (option VoidAs or void_as, flag --void-as), or store the array as .safetensors
}

func ExampleWriteFile() {
	folder, err := os.MkdirTemp("", "tensorfile")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	weights, err := core.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer weights.Close()
	column, err := weights.Transpose()
	if err != nil {
		log.Fatal(err)
	}
	defer column.Close()

	path := filepath.Join(folder, "weights.safetensors")
	err = tensorfile.WriteFile(context.Background(), path, []tensorfile.Named{
		{Name: "weights", Tensor: weights},
		{Name: "transposed", Tensor: column}, // becomes row-major
	}, tensorfile.WriteOptions{Metadata: map[string]string{"made by": "an example"}})
	if err != nil {
		log.Fatal(err)
	}

	f, err := tensorfile.Open(path, tensorfile.OpenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	t, err := f.Tensor("transposed")
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	values, err := core.Values[float32](t)
	fmt.Println(t.Shape(), values, err)
	// Output:
	// [3 2] [1 4 2 5 3 6] <nil>
}
