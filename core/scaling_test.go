package core_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/float"
)

// scalar is an element type with its naive conversions.
type scalar struct {
	dtype  core.DType
	decode func(uint64) float32
	encode func(float32) uint64
}

// integer is a type of integers from low to high. Floats are cut off, and limited.
func integer(d core.DType, low, high float64, decode func(uint64) float32) scalar {
	return scalar{d, decode, func(f float32) uint64 {
		x := math.Trunc(float64(f))
		if x != x {
			x = 0
		}
		return uint64(int64(max(low, min(high, x))))
	}}
}

var scalars = []scalar{
	integer(core.TypeUint8, 0, 255, func(x uint64) float32 { return float32(uint8(x)) }),
	integer(core.TypeInt8, -128, 127, func(x uint64) float32 { return float32(int8(x)) }),
	integer(core.TypeUint16, 0, 65535, func(x uint64) float32 { return float32(uint16(x)) }),
	integer(core.TypeInt16, -32768, 32767, func(x uint64) float32 { return float32(int16(x)) }),
	integer(core.TypeInt32, math.MinInt32, math.MaxInt32, func(x uint64) float32 { return float32(int32(x)) }),
	{core.TypeFloat32, func(x uint64) float32 { return math.Float32frombits(uint32(x)) }, func(f float32) uint64 { return uint64(math.Float32bits(f)) }},
	{core.TypeFloat16, func(x uint64) float32 { return float.Float16(x).Float32() }, func(f float32) uint64 { return uint64(float.NewFloat16(f)) }},
	{core.TypeBFloat16, func(x uint64) float32 { return float.BFloat16(x).Float32() }, func(f float32) uint64 { return uint64(float.NewBFloat16(f)) }},
	{core.TypeFloat64, func(x uint64) float32 { return float32(math.Float64frombits(x)) }, func(f float32) uint64 { return math.Float64bits(float64(f)) }},
}

func bits(b []byte) uint64 {
	var x [8]byte
	copy(x[:], b)
	return binary.LittleEndian.Uint64(x[:])
}

// naively scales one number: each step is exact in float64, and rounded to float32.
func naively(x, scale, offset float32) float32 {
	y := float32(float64(float32(float64(x)*float64(scale))) + float64(offset))
	if y != y {
		return math.Float32frombits(0x7fc00000)
	}
	return y
}

// area is memory that a random view lies in.
type area struct {
	bytes   []byte
	tensor  *core.Tensor
	strides []int64 // in bytes
	first   int64
}

// randomArea makes a view of a shape with a random order of axes, gaps and directions.
func randomArea(t *testing.T, r *rand.Rand, d core.DType, shape []int64) area {
	t.Helper()
	size := int64(d.Bits / 8)
	strides, at := make([]int64, len(shape)), int64(1)
	order := r.Perm(len(shape))
	for _, axis := range order {
		strides[axis] = at
		at = at*shape[axis] + r.Int64N(3)
	}
	first := int64(0)
	for axis, n := range shape {
		if r.IntN(3) == 0 {
			first += (n - 1) * strides[axis]
			strides[axis] = -strides[axis]
		}
	}
	a := area{bytes: make([]byte, at*size+16), first: first * size}
	for i := range a.bytes {
		a.bytes[i] = byte(r.Uint32())
	}
	base := coretest.Keep(t)(core.FromSlice(a.bytes))
	b, err := base.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	a.tensor = coretest.Keep(t)(core.NewTensor(b, core.Spec{DType: d, Shape: shape, Strides: strides, Offset: a.first}))
	for _, s := range strides {
		a.strides = append(a.strides, s*size)
	}
	return a
}

// at is where the element with these indices lies.
func (a *area) at(index []int64) int64 {
	at := a.first
	for i, x := range index {
		at += x * a.strides[i]
	}
	return at
}

func TestConvertScaled(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	shapes := [][]int64{{}, {1}, {5}, {3, 7, 40}, {2, 3, 33, 20}, {3, 120, 100}, {40, 3}, {2, 2, 2, 2, 2, 3}, {70, 2, 65}, {1, 1000}, {300, 500, 3}}
	rounds := 30
	if coretest.Quick() {
		rounds = 6
	}
	for _, shape := range shapes {
		for round := range rounds * len(scalars) {
			from, to := scalars[round%len(scalars)], scalars[r.IntN(len(scalars))]
			if slices.Equal(shape, []int64{300, 500, 3}) { // large enough for several goroutines
				if round > 3 {
					break
				}
				from, to = scalars[0], scalars[5]
			}
			s := core.Scaling{}
			n := int64(1)
			if len(shape) > 0 && r.IntN(3) > 0 {
				s.Axis = r.IntN(len(shape))
				n = shape[s.Axis]
			}
			numbers := func(n int64) (list []float32) {
				for range n {
					list = append(list, float32(r.NormFloat64()*math.Pow(2, float64(r.IntN(12)-6))))
				}
				return list
			}
			if r.IntN(4) > 0 {
				s.Scale = numbers(n)
			}
			if s.Scale == nil || r.IntN(4) > 0 {
				s.Offset = numbers(n)
			}
			src, dst := randomArea(t, r, from.dtype, shape), randomArea(t, r, to.dtype, shape)
			want := slices.Clone(dst.bytes)
			size, wide := int64(to.dtype.Bits/8), int64(from.dtype.Bits/8)
			for index := range indices(shape) {
				scale, offset := float32(1), float32(math.Copysign(0, -1))
				pick := func(list []float32, x *float32) {
					if len(list) == 1 {
						*x = list[0]
					} else if len(list) > 1 {
						*x = list[index[s.Axis]]
					}
				}
				pick(s.Scale, &scale)
				pick(s.Offset, &offset)
				at := src.at(index)
				var out [8]byte
				binary.LittleEndian.PutUint64(out[:], to.encode(naively(from.decode(bits(src.bytes[at:at+wide])), scale, offset)))
				copy(want[dst.at(index):], out[:size])
			}
			if err := core.ConvertScaled(t.Context(), dst.tensor, src.tensor, s); err != nil {
				t.Fatalf("%v to %v: %v", src.tensor, dst.tensor, err)
			}
			for i := range want {
				if want[i] != dst.bytes[i] {
					t.Fatalf("%v to %v, %+v: byte %d is %#x, want %#x", src.tensor, dst.tensor, s, i, dst.bytes[i], want[i])
				}
			}
		}
	}
}

// indices yields all indices of a shape.
func indices(shape []int64) func(func([]int64) bool) {
	return func(yield func([]int64) bool) {
		index := make([]int64, len(shape))
		for {
			if !yield(index) {
				return
			}
			i := len(shape) - 1
			for ; i >= 0; i-- {
				if index[i]++; index[i] < shape[i] {
					break
				}
				index[i] = 0
			}
			if i < 0 {
				return
			}
		}
	}
}

func TestScalingIsRefused(t *testing.T) {
	keep := coretest.Keep(t)
	dst, src := keep(core.FromSlice(make([]float32, 6), 2, 3)), keep(core.FromSlice(make([]uint8, 6), 2, 3))
	nan := float32(math.NaN())
	for name, s := range map[string]core.Scaling{
		"too few":    {Scale: []float32{1, 2}, Axis: 1},
		"too many":   {Offset: []float32{1, 2, 3, 4}, Axis: 1},
		"no axis":    {Scale: []float32{1, 2, 3}, Axis: 2},
		"negative":   {Scale: []float32{1, 2, 3}, Axis: -1},
		"not finite": {Scale: []float32{nan}},
		"infinite":   {Offset: []float32{float32(math.Inf(-1))}},
	} {
		if err := core.ConvertScaled(t.Context(), dst, src, s); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	pairs := keep(core.FromSlice(make([]complex64, 6), 2, 3))
	if err := core.ConvertScaled(t.Context(), pairs, src, core.Scaling{Scale: []float32{2}}); !errors.Is(err, core.ErrDType) {
		t.Errorf("complex numbers: %v, want ErrDType", err)
	}
	nibbles := keep(core.FromSlice(make([]uint8, 8)))
	b, err := nibbles.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	packed := keep(core.NewTensor(b, core.Spec{DType: core.TypeInt4, Shape: []int64{2, 3}}))
	if err := core.ConvertScaled(t.Context(), dst, packed, core.Scaling{Scale: []float32{2}}); !errors.Is(err, core.ErrDType) {
		t.Errorf("packed numbers: %v, want ErrDType", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := core.ConvertScaled(ended, dst, src, core.Scaling{Scale: []float32{2}}); !errors.Is(err, context.Canceled) {
		t.Errorf("the context has ended: %v", err)
	}
}

// Frames of bytes become planes of float32, as models expect them: every way beside a copy of as many bytes as
// are written.
func BenchmarkConvertScaled(b *testing.B) {
	const height, width = 1080, 1920
	for name, channels := range map[string]int64{"RGBA": 4, "RGB": 3} {
		b.Run(name, func(b *testing.B) {
			frame, err := core.FromSlice(make([]uint8, height*width*channels), height, width, channels)
			if err != nil {
				b.Fatal(err)
			}
			defer frame.Close()
			colors, err := frame.Slice(2, 0, 3, 1)
			if err != nil {
				b.Fatal(err)
			}
			defer colors.Close()
			src, err := colors.Permute(2, 0, 1)
			if err != nil {
				b.Fatal(err)
			}
			defer src.Close()
			dst, err := core.FromSlice(make([]float32, 3*height*width), 3, height, width)
			if err != nil {
				b.Fatal(err)
			}
			defer dst.Close()
			s := core.Scaling{Scale: []float32{1. / 255, 1. / 250, 1. / 245}, Offset: []float32{-1, -2, -3}}
			b.SetBytes(dst.NumBytes())
			for b.Loop() {
				if err := core.ConvertScaled(b.Context(), dst, src, s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
