package arrow_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/interop/arrow"
)

// Makes a column of a table of two pictures, one row each, on the memory of one tensor, and reads the second row.
func Example() {
	pictures, err := core.FromSlice(make([]float32, 2*4*5), 2, 4, 5)
	check(err)
	defer pictures.Close()
	check(core.Set[float32](pictures, 7, 1, 3, 4))
	column, err := arrow.ToFixedShape(context.Background(), pictures, "row", "column")
	check(err)
	defer column.Release()
	fmt.Println(column.Len(), column.DataType())

	back, err := arrow.FromFixedShape(column)
	check(err)
	defer back.Close()
	value, err := core.At[float32](back, 1, 3, 4)
	check(err)
	fmt.Println(back.Shape(), value)
	// Output:
	// 2 extension<arrow.fixed_shape_tensor[value_type=float32, {"shape":[4,5],"dim_names":["row","column"]}]>
	// [2 4 5] 7
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
