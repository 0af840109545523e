package core_test

import (
	"errors"
	"fmt"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/float"
)

// A Go slice becomes a tensor in place; views of it share its memory.
func ExampleFromSlice() {
	pixels := []float32{0, 1, 2, 3, 4, 5}
	image, err := core.FromSlice(pixels, 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer image.Close()

	columns, err := image.Slice(1, 2, -1, -2) // the last column, then the first
	if err != nil {
		fmt.Println(err)
		return
	}
	defer columns.Close()

	pixels[0] = 100
	values, err := core.All[float32](columns)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(columns)
	for v := range values {
		fmt.Print(v, " ")
	}
	// Output:
	// float32[2 2] on cpu strides [3 -2]
	// 2 100 5 3
}

// Memory of any origin becomes a tensor that tells its owner when it is done with.
func ExampleWrap() {
	m := core.Memory{
		ID:     core.DeviceID{Type: core.DeviceCUDA, Index: 1},
		Handle: 0x7f000000,
		Size:   1 << 20,
		Owner:  core.FreeFunc(func() { fmt.Println("freed") }),
	}
	t, err := core.Wrap(m, core.Spec{DType: core.TypeBFloat16, Shape: []int64{512, 1024}})
	if err != nil {
		m.Free() // still ours
		fmt.Println(err)
		return
	}
	fmt.Println(t)
	t.Close()
	// Output:
	// bfloat16[512 1024] on cuda:1
	// freed
}

// Errors are told apart by their sentinel; their text names what is wrong.
func ExampleError() {
	_, err := core.NewLayout(3, -1)
	fmt.Println(errors.Is(err, core.ErrLayout))
	fmt.Println(err)
	// Output:
	// true
	// core: NewLayout: bad layout: shape[1] is -1; extents must not be negative
}

func ExampleParseDType() {
	t, _ := core.ParseDType("int4x2")
	fmt.Println(t, t.Bits, t.Lanes)
	fmt.Println(core.DTypeOf[float.BFloat16]())
	// Output:
	// int4x2 4 2
	// bfloat16
}
