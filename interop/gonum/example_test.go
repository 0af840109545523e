package gonum_test

import (
	"fmt"
	"log"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/interop/gonum"
	"gonum.org/v1/gonum/mat"
)

// Fits a plane z = a*x + b*y + c to points by least squares. The points are one tensor, such as another library may
// have made. Gonum solves the equations on slices of it: nothing is copied.
func Example() {
	points, err := core.FromSlice([]float64{
		// x, y, 1, z
		0, 0, 1, 5,
		1, 0, 1, 7,
		0, 1, 1, 2,
		2, 3, 1, 0,
		4, 1, 1, 10,
	}, 5, 4)
	if err != nil {
		log.Fatal(err)
	}
	defer points.Close()
	left, err := points.Slice(1, 0, 3, 1) // the columns x, y and 1
	if err != nil {
		log.Fatal(err)
	}
	defer left.Close()
	right, err := points.Index(1, 3) // the column z
	if err != nil {
		log.Fatal(err)
	}
	defer right.Close()

	a, release, err := gonum.ToDense(left)
	if err != nil {
		log.Fatal(err)
	}
	defer release()
	z, release, err := gonum.ToVecDense(right)
	if err != nil {
		log.Fatal(err)
	}
	defer release()
	var plane mat.VecDense
	if err := plane.SolveVec(a, z); err != nil {
		log.Fatal(err)
	}

	result, err := gonum.FromVecDense(&plane)
	if err != nil {
		log.Fatal(err)
	}
	defer result.Close()
	fmt.Printf("%v %v: %.3f\n", result.DType(), result.Shape(), plane.RawVector().Data)
	// Output: float64 [3]: [2.000 -3.000 5.000]
}
