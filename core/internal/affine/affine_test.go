package affine_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core/internal/affine"
)

// want is the definition, of one number. The conversions keep the compiler from fusing.
func want(x, scale, offset float32) float32 {
	product := float64(x) * float64(scale) // exact: 24 bits by 24
	return float32(float64(float32(product)) + float64(offset))
}

func same(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

func TestFromUint8(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	bytes := make([]uint8, 4000)
	for i := range bytes {
		bytes[i] = uint8(r.Uint32())
	}
	for _, step := range []int64{0, 1, 2, 3, 4, 5, 6, 17, -1, -2, -3, -4, -5, -6} {
		for n := range int64(100) {
			first := int64(0)
			if step < 0 {
				first = -(n - 1) * step
			}
			if n == 0 {
				first = 0
			}
			// A slice that ends at the last byte, for checks of pointers and of the ends.
			scale, offset := float32(r.NormFloat64()), float32(r.NormFloat64())
			to := make([]float32, n+2)
			affine.FromUint8(to[1:n+1], unsafe.Pointer(&bytes[first]), step, scale, offset)
			for i := range n {
				if x := want(float32(bytes[first+i*step]), scale, offset); !same(to[1+i], x) {
					t.Fatalf("step %d, n %d: element %d is %v, want %v", step, n, i, to[1+i], x)
				}
			}
			if to[0] != 0 || to[n+1] != 0 {
				t.Fatalf("step %d, n %d: something else was written", step, n)
			}
		}
	}
	long := make([]uint8, 3*70000)
	for i := range long {
		long[i] = uint8(i)
	}
	to := make([]float32, 70000)
	affine.FromUint8(to, unsafe.Pointer(&long[1]), 3, 0.1, -3)
	for i, y := range to {
		if !same(y, want(float32(long[1+3*i]), 0.1, -3)) {
			t.Fatalf("element %d of a long row is %v", i, y)
		}
	}
}

func TestScale(t *testing.T) {
	inf := float32(math.Inf(1))
	x := []float32{1, -2.5, inf, -inf, affine.NaN, math.Float32frombits(0xffc12345), 3e38, 1e-40, 0}
	for _, c := range [][2]float32{{2, 1}, {0, -1}, {0.1, 0.3}, {-1e-30, 0}} {
		one := append([]float32(nil), x...)
		affine.Scale(one, c[0], c[1])
		each := append([]float32(nil), x...)
		scales, offsets := make([]float32, len(x)), make([]float32, len(x))
		for i := range x {
			scales[i], offsets[i] = c[0], c[1]
		}
		affine.ScaleEach(each, scales, offsets)
		for i := range x {
			y := want(x[i], c[0], c[1])
			if y != y {
				y = affine.NaN
			}
			if !same(one[i], y) || !same(each[i], y) {
				t.Errorf("%v*%v + %v is %v and %v, want %v", x[i], c[0], c[1], one[i], each[i], y)
			}
		}
	}
}

func BenchmarkFromUint8(b *testing.B) {
	from, to := make([]uint8, 4*2048), make([]float32, 2048)
	b.SetBytes(4 * 2048)
	for b.Loop() {
		affine.FromUint8(to, unsafe.Pointer(&from[0]), 4, 0.01, -1)
	}
}
