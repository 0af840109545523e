package float_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core/float"
)

// A narrowing and a widening are functions under test, with what they must do to one number.
type narrowing struct {
	name             string
	vector, portable func([]uint16, []float32)
	number           func(float32) uint16
}

type widening struct {
	name             string
	vector, portable func([]float32, []uint16)
	number           func(uint16) float32
}

// narrow and widen make functions that take the bits of either type.
func narrow[T float.Float16 | float.BFloat16](f func([]T, []float32) int) func([]uint16, []float32) {
	return func(to []uint16, from []float32) {
		f(unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(to))), len(to)), from)
	}
}

func widen[T float.Float16 | float.BFloat16](f func([]float32, []T) int) func([]float32, []uint16) {
	return func(to []float32, from []uint16) {
		f(to, unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(from))), len(from)))
	}
}

var (
	narrowings = []narrowing{
		{"float16", narrow(float.ToFloat16), narrow(float.PortableToFloat16), func(f float32) uint16 { return uint16(float.NewFloat16(f)) }},
		{"bfloat16", narrow(float.ToBFloat16), narrow(float.PortableToBFloat16), func(f float32) uint16 { return uint16(float.NewBFloat16(f)) }},
	}
	widenings = []widening{
		{"float16", widen(float.FromFloat16), widen(float.PortableFromFloat16), func(x uint16) float32 { return float.Float16(x).Float32() }},
		{"bfloat16", widen(float.FromBFloat16), widen(float.PortableFromBFloat16), func(x uint16) float32 { return float.BFloat16(x).Float32() }},
	}
)

// check compares what the functions make of in with what they must make of each number.
func (w narrowing) check(t *testing.T, in []float32) {
	t.Helper()
	for name, f := range map[string]func([]uint16, []float32){"vector": w.vector, "portable": w.portable} {
		out := make([]uint16, len(in))
		f(out, in)
		for i, x := range in {
			if want := w.number(x); out[i] != want {
				t.Fatalf("%s, %s: %#08x becomes %#04x, want %#04x", w.name, name, math.Float32bits(x), out[i], want)
			}
		}
	}
}

func (w widening) check(t *testing.T, in []uint16) {
	t.Helper()
	for name, f := range map[string]func([]float32, []uint16){"vector": w.vector, "portable": w.portable} {
		out := make([]float32, len(in))
		f(out, in)
		for i, x := range in {
			if got, want := math.Float32bits(out[i]), math.Float32bits(w.number(x)); got != want {
				t.Fatalf("%s, %s: %#04x becomes %#08x, want %#08x", w.name, name, x, got, want)
			}
		}
	}
}

func random() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// shuffled has the same elements in another order: NaN beside numbers.
func shuffled[T any](s []T) []T {
	s = slices.Clone(s)
	random().Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	return s
}

func TestWidenAll(t *testing.T) {
	t.Log("vectors:", float.Vectors())
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	for _, w := range widenings {
		w.check(t, all)
		w.check(t, shuffled(all))
	}
}

// singles has float32 of both signs and all exponents, with mantissas that lie halfway between
// two results, for each length that a result's mantissa can have, or next to those; and others
// throughout.
func singles() []float32 {
	var mantissas []uint32
	for shift := range 24 {
		for _, odd := range []uint32{1, 3, 5, 7} {
			middle := odd << shift
			mantissas = append(mantissas, middle-1, middle, middle+1, ^middle-1, ^middle, ^middle+1)
		}
	}
	for i := range mantissas {
		mantissas[i] &= 1<<23 - 1
	}
	slices.Sort(mantissas)
	mantissas = slices.Compact(mantissas)
	var out []float32
	for exponent := range uint32(512) {
		for _, mantissa := range mantissas {
			out = append(out, math.Float32frombits(exponent<<23|mantissa))
		}
	}
	for bits := uint64(0); bits < 1<<32; bits += 4099 {
		out = append(out, math.Float32frombits(uint32(bits)))
	}
	return out
}

func TestNarrow(t *testing.T) {
	in := singles()
	mixed := shuffled(in)
	for _, w := range narrowings {
		w.check(t, in)
		if float.Vectors() { // otherwise neighbours do not matter
			w.check(t, mixed)
		}
	}
}

// Both slices begin anywhere and end anywhere, and nothing beside the result is written.
func TestLengthsAndPlaces(t *testing.T) {
	r := random()
	halves := make([]uint16, 128)
	for i := range halves {
		halves[i] = uint16(r.Uint32())
	}
	halves[5], halves[77] = 0x7c01, 0xffff // NaN, in either type
	floats := make([]float32, 128)
	for i := range floats {
		floats[i] = math.Float32frombits(r.Uint32())
	}
	floats[3], floats[80] = math.Float32frombits(0x7f800001), math.Float32frombits(0xffffffff)
	for _, w := range narrowings {
		places(t, w.name, w.vector, w.number, floats, 16, func(x uint16) uint32 { return uint32(x) })
	}
	for _, w := range widenings {
		places(t, w.name, w.vector, w.number, halves, 8, math.Float32bits)
	}
}

// places is how many elements of the result a vector register holds.
func places[To uint16 | float32, From any](t *testing.T, name string, f func([]To, []From), number func(From) To, in []From, places int, bits func(To) uint32) {
	guard := To(12345)
	out, want := make([]To, 160), make([]uint32, len(in))
	for i, x := range in {
		want[i] = bits(number(x))
	}
	for n := range 101 {
		for first := range 16 {
			for place := range places {
				for i := range out {
					out[i] = guard
				}
				f(out[place:place+n:place+n], in[first:first+n:first+n])
				for i, x := range out {
					if inside := i >= place && i < place+n; inside && bits(x) != want[first+i-place] || !inside && x != guard {
						t.Fatalf("%s: %d elements from %d to %d: element %d is %#x", name, n, first, place, i-place, bits(x))
					}
				}
			}
		}
	}
}

// Long slices are converted in several calls.
func TestLongSlices(t *testing.T) {
	for _, n := range []int{float.Longest - 1, float.Longest, float.Longest + 1, float.Longest + 7, float.Longest + 8, 2*float.Longest + 3} {
		floats, halves, want := make([]float32, n), make([]uint16, n), make([]uint16, n)
		for i := range floats {
			floats[i] = float32(i) / 7
		}
		narrow(float.ToFloat16)(halves, floats)
		narrow(float.PortableToFloat16)(want, floats)
		if !slices.Equal(halves, want) {
			t.Errorf("%d elements differ from the Go code's", n)
		}
	}
}

// As copy does, a conversion ends with the shorter one of the slices.
func TestLengthsDiffer(t *testing.T) {
	for _, n := range [][2]int{{0, 0}, {0, 9}, {9, 0}, {3, 9}, {31, 32}, {32, 31}, {100, float.Longest + 100}} {
		floats, halves, back := make([]float32, n[1]), make([]float.Float16, n[0]), make([]float32, n[1])
		for i := range floats {
			floats[i] = float32(i % 2048)
		}
		want := min(n[0], n[1])
		if got := float.ToFloat16(halves, floats); got != want {
			t.Errorf("ToFloat16 converts %d of %d elements to %d", got, n[1], n[0])
		}
		if got := float.FromFloat16(back, halves); got != want || !slices.Equal(back[:want], floats[:want]) {
			t.Errorf("FromFloat16 converts %d of %d elements to %d, or not back", got, n[0], n[1])
		}
		brains := make([]float.BFloat16, n[0])
		if got := float.ToBFloat16(brains, floats); got != want {
			t.Errorf("ToBFloat16 converts %d of %d elements to %d", got, n[1], n[0])
		}
		if got := float.FromBFloat16(back, brains); got != want {
			t.Errorf("FromBFloat16 converts %d of %d elements to %d", got, n[0], n[1])
		}
	}
}

func BenchmarkHalf(b *testing.B) {
	for _, n := range []int{100, 2 << 10, 16 << 10, 4 << 20} {
		floats, halves := make([]float32, n), make([]uint16, n)
		for i := range floats {
			floats[i] = float32(i%2001-1000) / 64
		}
		run := func(name string, f func()) {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(6 * n))
				for b.Loop() {
					f()
				}
			})
		}
		from, to := make([]byte, 3*n), make([]byte, 3*n)
		run("copy", func() { copy(to, from) })
		narrow(float.ToFloat16)(halves, floats)
		for _, w := range narrowings {
			run("to-"+w.name, func() { w.vector(halves, floats) })
		}
		for _, w := range widenings {
			run("from-"+w.name, func() { w.vector(floats, halves) })
		}
	}
}
