//go:build (cuda || rocm || vulkan) && linux && cgo

package gpuconvert_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// launcher carries out a dispatch, by a kernel that touches no memory but the windows' of dst and src.
type launcher func(d gpuconvert.Dispatch, dst, src []byte) error

// checkBits converts between all types that [gpuconvert.Supports] admits, and compares the bits with the host's.
func checkBits(t *testing.T, launch launcher) {
	sources := []core.DType{core.TypeUint8, core.TypeInt8, core.TypeUint16, core.TypeInt16}
	destinations := append([]core.DType{core.TypeFloat32, core.TypeFloat16, core.TypeBFloat16}, sources...)
	scalings := []core.Scaling{
		{},
		{Scale: []float32{1.0 / 255 / 0.229, -3.7, 0x1p-20}, Offset: []float32{-0.485 / 0.229, 1000.3, 0}, Axis: 1},
		{Scale: []float32{1e6}},
	}
	for _, to := range destinations {
		for _, from := range sources {
			for n, s := range scalings {
				if gpuconvert.Supports("test", to, from, s) != nil {
					continue
				}
				t.Run(fmt.Sprintf("%v from %v, scaling %d", to, from, n), func(t *testing.T) {
					if got, want := converted(t, launch, to, from, s); !bytes.Equal(got, want) {
						t.Error("the bits are not those of the host")
					}
				})
			}
		}
	}
}

// converted converts a matrix of three columns from one whose columns are rows in memory, by kernels and on the host.
func converted(t *testing.T, launch launcher, to, from core.DType, s core.Scaling) (got, want []byte) {
	t.Helper()
	const rows, columns = 301, 3
	keep := coretest.Keep(t)
	input := coretest.Pattern((rows*columns*int(from.Bits)/8+3)&^3, 5)
	tensor := func(b []byte, d core.DType, strides []int64) *core.Tensor {
		raw, err := keep(core.FromSlice(b)).Buffer()
		if err != nil {
			t.Fatal(err)
		}
		return keep(core.NewTensor(raw, core.Spec{DType: d, Shape: []int64{rows, columns}, Strides: strides}))
	}
	size := (rows*columns*int(to.Bits)/8 + 3) &^ 3 // windows are of whole words
	want, got = make([]byte, size), make([]byte, size)
	src, dst := tensor(input, from, []int64{1, rows}), tensor(got, to, nil)
	if err := core.ConvertScaled(t.Context(), tensor(want, to, nil), src, s); err != nil {
		t.Fatal(err)
	}
	list, err := gpuconvert.Plan(dst, src, s, gpuconvert.Limits{Range: 1 << 30, Alignment: 8, Groups: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if err := launch(d, got, input); err != nil {
			t.Fatal(err)
		}
	}
	return got, want
}

// checkRounds fails if a kernel that rounds a product and a sum together has the bits of the host: the cases would not show it.
func checkRounds(t *testing.T, launch launcher) {
	t.Helper()
	s := core.Scaling{Scale: []float32{1.0 / 255 / 0.229, -3.7, 0x1p-20}, Offset: []float32{-0.485 / 0.229, 1000.3, 0}, Axis: 1}
	if got, want := converted(t, launch, core.TypeFloat32, core.TypeUint8, s); bytes.Equal(got, want) {
		t.Error("the bits are those of the host")
	}
}
