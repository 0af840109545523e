package float_test

import (
	"math"
	"testing"

	"github.com/dlx-go/dlx/core/float"
)

// number8 is an 8-bit type as a test sees it: its parameters, and how it converts.
type number8 struct {
	exp, man, bias int
	infinities     bool // and NaNs, with the largest exponent
	unsignedZero   bool // the bits of -0 are NaN
	decode         func(uint8) float32
	encode         func(float32) uint8
}

func numbers8() map[string]number8 {
	return map[string]number8{
		"e3m4":        {3, 4, 3, true, false, func(x uint8) float32 { return float.Float8E3M4(x).Float32() }, func(f float32) uint8 { return uint8(float.NewFloat8E3M4(f)) }},
		"e4m3":        {4, 3, 7, true, false, func(x uint8) float32 { return float.Float8E4M3(x).Float32() }, func(f float32) uint8 { return uint8(float.NewFloat8E4M3(f)) }},
		"e4m3b11fnuz": {4, 3, 11, false, true, func(x uint8) float32 { return float.Float8E4M3B11FNUZ(x).Float32() }, func(f float32) uint8 { return uint8(float.NewFloat8E4M3B11FNUZ(f)) }},
		"e4m3fn":      {4, 3, 7, false, false, func(x uint8) float32 { return float.Float8E4M3FN(x).Float32() }, func(f float32) uint8 { return uint8(float.NewFloat8E4M3FN(f)) }},
		"e4m3fnuz":    {4, 3, 8, false, true, func(x uint8) float32 { return float.Float8E4M3FNUZ(x).Float32() }, func(f float32) uint8 { return uint8(float.NewFloat8E4M3FNUZ(f)) }},
		"e5m2":        {5, 2, 15, true, false, func(x uint8) float32 { return float.Float8E5M2(x).Float32() }, func(f float32) uint8 { return uint8(float.NewFloat8E5M2(f)) }},
		"e5m2fnuz":    {5, 2, 16, false, true, func(x uint8) float32 { return float.Float8E5M2FNUZ(x).Float32() }, func(f float32) uint8 { return uint8(float.NewFloat8E5M2FNUZ(f)) }},
	}
}

// value is what the bits of x stand for, by the definition of the format.
func (n number8) value(x uint8) float64 {
	exp, man := int(x)>>n.man&(1<<n.exp-1), int(x)&(1<<n.man-1)
	sign := 1 - 2*float64(x>>7)
	switch {
	case n.unsignedZero && x == 0x80,
		!n.unsignedZero && !n.infinities && x&0x7f == 0x7f,
		n.infinities && exp == 1<<n.exp-1 && man != 0:
		return math.NaN()
	case n.infinities && exp == 1<<n.exp-1:
		return sign * math.Inf(1)
	case exp == 0:
		return math.Copysign(math.Ldexp(float64(man), 1-n.bias-n.man), sign)
	default:
		return sign * math.Ldexp(float64(man+1<<n.man), exp-n.bias-n.man)
	}
}

func TestEightBitNumbers(t *testing.T) {
	for name, n := range numbers8() {
		for i := range 256 {
			x := uint8(i)
			f, want := n.decode(x), n.value(x)
			if math.Float64bits(float64(f)) != math.Float64bits(want) && want == want || want != want && f == f {
				t.Fatalf("%s: %#x is %v, want %v", name, x, f, want)
			}
			if back := n.encode(f); f == f && back != x || f != f && n.decode(back) == n.decode(back) {
				t.Fatalf("%s: %#x is %v, which becomes %#x", name, x, f, back)
			}
		}
		n.roundsToNearest(t, name)
	}
}

// roundsToNearest tries what lies between each two neighbours, and beyond the largest.
func (n number8) roundsToNearest(t *testing.T, name string) {
	top := uint8(0)
	for x := uint8(0); x < 0x7f; x++ {
		low, high := n.decode(x), n.decode(x+1)
		if !(high-high == 0) {
			// As if there were another number.
			high = low + (low - n.decode(x-1))
			top = x
		}
		mid := (low + high) / 2
		even, above := x+x&1, x+1
		for f, want := range map[float32]uint8{mid: even, math.Nextafter32(mid, 0): x, math.Nextafter32(mid, math.MaxFloat32): above} {
			got := n.encode(f)
			if top != 0 && want > top {
				if g := n.decode(got); n.infinities != (g > low) || n.infinities == (g != g) {
					t.Errorf("%s: %v, too large, becomes %v", name, f, g)
				}
			} else if got != want {
				t.Errorf("%s: %v becomes %#x, want %#x", name, f, got, want)
			}
			if negative := n.encode(-f); got != 0 && negative != got|0x80 || got == 0 && n.unsignedZero != (negative == 0) {
				t.Errorf("%s: %v becomes %#x, but %v %#x", name, f, got, -f, negative)
			}
		}
		if top != 0 {
			break
		}
	}
}

func TestScalesArePowersOfTwo(t *testing.T) {
	for i := range 255 {
		x := float.Float8E8M0FNU(i)
		f := x.Float32()
		if want := math.Ldexp(1, i-127); float64(f) != want || float.NewFloat8E8M0FNU(f) != x {
			t.Fatalf("%#x is %v, want %v", i, f, want)
		}
		if i == 254 {
			break
		}
		if i == 0 {
			if got := float.NewFloat8E8M0FNU(math.Nextafter32(f, 1)); got != 1 {
				t.Errorf("what is above 2**-127 becomes %#x", got)
			}
			continue
		}
		for g, want := range map[float32]float.Float8E8M0FNU{
			f * 1.5: x + 1, math.Nextafter32(f*1.5, 0): x, math.Nextafter32(f*1.5, math.MaxFloat32): x + 1,
		} {
			if got := float.NewFloat8E8M0FNU(g); got != want {
				t.Errorf("%v becomes %#x, want %#x", g, got, want)
			}
		}
	}
	nan := float32(math.NaN())
	for _, f := range []float32{0, float32(math.Copysign(0, -1)), -1, nan, -nan, float32(math.Inf(1)), 0x1.8p127} {
		if got := float.NewFloat8E8M0FNU(f); got != 0xff {
			t.Errorf("%v becomes %#x, want NaN", f, got)
		}
	}
	if f := float.Float8E8M0FNU(0xff).Float32(); f == f {
		t.Error("0xff is", f)
	}
	if got := float.NewFloat8E8M0FNU(math.SmallestNonzeroFloat32); got != 0 {
		t.Errorf("the smallest number becomes %#x", got)
	}
}
