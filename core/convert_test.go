package core_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/float"
	"github.com/dlx-go/dlx/core/typecode"
)

// convertible are the types that NumPy and ml_dtypes convert, too. Numbers of fewer than
// 8 bits have bytes of their own there.
var convertible = []string{
	"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4", "uint4", "int2", "uint2",
	"float16", "float32", "float64", "bfloat16", "complex64", "complex128",
	"float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
	"float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
}

// patterns returns bytes of elements of a type: all there are where these are few, and
// otherwise some of all magnitudes, with many ties of narrower types.
func patterns(d core.DType) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	size, _ := d.Size(1, true)
	var out []byte
	put := func(x uint64) {
		for i := range size {
			out = append(out, byte(x>>(8*i)))
		}
	}
	switch {
	case d.Code == typecode.Bool:
		return []byte{0, 1}
	case d.Code == typecode.Int && d.SubByte():
		for i := range 1 << d.Bits {
			put(uint64(int8(i) << (8 - d.Bits) >> (8 - d.Bits)))
		}
	case d.Bits <= 16:
		for i := range uint64(1) << d.Bits {
			put(i)
		}
	case d.Code == typecode.Float && d.Bits == 32:
		for i := range uint64(1 << 16) {
			for _, low := range []uint64{0, 1, 0x1000, 0x7fff, 0x8000, 0x8001, r.Uint64N(1 << 16)} {
				put(i<<16 | low)
			}
		}
	case d.Code == typecode.Float:
		for i := range uint64(1 << 16) {
			for _, low := range []uint64{0, 1, r.Uint64N(1 << 48)} {
				put(math.Float64bits(float64(math.Float32frombits(uint32(i<<16)))) + low)
			}
			put(i<<48 | r.Uint64N(1<<48))
			h := float64(float.Float16(i).Float32())
			put(math.Float64bits(h * (1 + 0x1p-11)))
			put(math.Float64bits(math.Nextafter(h*(1+0x1p-11), 0)))
			put(math.Float64bits(math.Nextafter(h*(1+0x1p-11), math.Inf(1))))
		}
	case d.Code == typecode.Complex && d.Bits == 64:
		for range 1 << 14 {
			put(r.Uint64())
		}
	case d.Code == typecode.Complex:
		for range 1 << 14 {
			out = append(out, patternOf(float64(math.Float32frombits(r.Uint32())))...)
			out = append(out, patternOf(r.NormFloat64())...)
		}
	default: // integers
		for i := range d.Bits {
			for _, low := range []uint64{0, 1, ^uint64(0), 1 << (i / 2), 1<<(i/2) + 1, 1 << (i / 2) * 3} {
				put(1<<i + low)
				put(-(1<<i + low))
			}
		}
		for range 1 << 14 {
			put(r.Uint64() >> r.Uint64N(64))
		}
	}
	return out
}

func patternOf(f float64) []byte {
	b := math.Float64bits(f)
	out := make([]byte, 8)
	for i := range out {
		out[i] = byte(b >> (8 * i))
	}
	return out
}

// bytesTensor is a tensor of some type on given bytes.
func bytesTensor(t testing.TB, d core.DType, data []byte, shape []int64, flags core.Flags) *core.Tensor {
	t.Helper()
	words := make([]uint64, len(data)/8+1) // aligned for all
	base, err := core.FromSlice(words)
	if err != nil {
		t.Fatal(err)
	}
	b, err := base.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	v, err := core.NewTensor(b, core.Spec{DType: d, Shape: shape, Flags: flags})
	base.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	copy(bytesOf(t, v), data)
	return v
}

// bytesOf are the bytes of a row-major tensor.
func bytesOf(t testing.TB, v *core.Tensor) []byte {
	t.Helper()
	b, err := v.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	w, err := core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{v.NumBytes()}, Offset: v.Offset() - b.Memory().Offset})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s, err := core.Values[uint8](w)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestConvertAgreesWithMLDtypes compares with the real ones: see convert_check.py.
func TestConvertAgreesWithMLDtypes(t *testing.T) {
	python := os.Getenv("DLX_PYTHON")
	if python == "" {
		t.Skip("DLX_PYTHON names no Python that has NumPy and ml_dtypes; make test sets it")
	}
	folder := t.TempDir()
	inputs := make(map[string]*core.Tensor)
	for _, name := range convertible {
		d, err := core.ParseDType(name)
		if err != nil {
			t.Fatal(err)
		}
		data := patterns(d)
		size, _ := d.Size(1, true)
		if coretest.Sanitized { // every arithmetic is compared without a sanitizer
			data = everySeventh(data, int(size))
		}
		inputs[name] = bytesTensor(t, d, data, []int64{int64(len(data)) / size}, core.FlagSubBytePadded)
		if err := os.WriteFile(filepath.Join(folder, name+".in"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(python, "convert_check.py", folder).CombinedOutput()
	if err != nil {
		t.Fatalf("%v (make setup installs what requirements.txt lists)\n%s", err, out)
	}
	t.Logf("%s", out)
	for from, src := range inputs {
		for to, like := range inputs {
			want, err := os.ReadFile(filepath.Join(folder, from+"."+to+".out"))
			size, _ := like.DType().Size(src.NumElements(), true)
			dst := bytesTensor(t, like.DType(), make([]byte, size), src.Shape(), core.FlagSubBytePadded)
			if errors.Is(err, os.ErrNotExist) {
				if err := core.Convert(t.Context(), dst, src); err == nil && from != to {
					t.Errorf("%s to %s: no error, which NumPy warns of", from, to)
				}
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			if err := core.Convert(t.Context(), dst, src); err != nil {
				t.Errorf("%s to %s: %v", from, to, err)
				continue
			}
			sameNumbers(t, src, dst, want)
		}
	}
}

// everySeventh keeps every seventh element. All are kept where there are few.
func everySeventh(data []byte, size int) (some []byte) {
	if len(data) <= 256*size {
		return data
	}
	for i := 0; i < len(data); i += 7 * size {
		some = append(some, data[i:i+size]...)
	}
	return some
}

// sameNumbers compares what src became with bytes, but for the payload of NaN, and
// integers that a float does not fit into.
func sameNumbers(t *testing.T, src, dst *core.Tensor, want []byte) {
	t.Helper()
	got := bytesOf(t, dst)
	if slices.Equal(got, want) {
		return
	}
	other := bytesTensor(t, dst.DType(), want, dst.Shape(), dst.Flags())
	wide, floating := core.TypeComplex128, func(d core.DType) bool { return d.Code != typecode.Int && d.Code != typecode.UInt }
	numbers := func(v *core.Tensor) []complex128 {
		w, err := v.AsType(t.Context(), wide)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		s, err := core.Values[complex128](w)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(s)
	}
	from, a, b := numbers(src), numbers(dst), numbers(other)
	same := func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y }
	bad := 0
	for i := range a {
		if same(real(a[i]), real(b[i])) && same(imag(a[i]), imag(b[i])) {
			continue
		}
		if d := dst.DType(); !floating(d) && floating(src.DType()) {
			bits := int(d.Bits)
			low, high := 0., math.Ldexp(1, bits)
			if d.Code == typecode.Int {
				low, high = -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1)
			}
			if x := math.Trunc(real(from[i])); !(x >= low && x < high) {
				continue
			}
		}
		if bad++; bad <= 3 {
			t.Errorf("%v: %v becomes %v %v, want %v", src.DType(), from[i], dst.DType(), a[i], b[i])
		}
	}
}

// Every pattern of 16 bits passes through Convert as it does through its own method.
func TestConvertAgreesWithTheScalars(t *testing.T) {
	halves, brains := make([]float.Float16, 1<<16), make([]float.BFloat16, 1<<16)
	for i := range halves {
		halves[i], brains[i] = float.Float16(i), float.BFloat16(i)
	}
	agrees(t, halves, float.Float16.Float32)
	agrees(t, brains, float.BFloat16.Float32)
	singles := make([]float32, 0, 7<<16)
	for p := patterns(core.TypeFloat32); len(p) > 0; p = p[4:] {
		singles = append(singles, math.Float32frombits(uint32(p[0])|uint32(p[1])<<8|uint32(p[2])<<16|uint32(p[3])<<24))
	}
	agrees(t, singles, float.NewFloat16)
	agrees(t, singles, float.NewBFloat16)
	agrees(t, singles, float.NewFloat8E4M3FN)
	agrees(t, singles, float.NewFloat8E8M0FNU)
	agrees(t, singles, func(f float32) float64 { return float64(f) })
}

func agrees[To, From core.Element](t *testing.T, in []From, scalar func(From) To) {
	t.Helper()
	src, err := core.FromSlice(in)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	bits := func(x To) To { return x }
	for _, step := range []int{1, 3, -2} {
		out := make([]To, 3*len(in))
		first := 0
		if step < 0 {
			first = len(out) - 1
		}
		dst, err := core.FromSliceStrided(out, first, []int64{int64(len(in))}, []int64{int64(step)})
		if err != nil {
			t.Fatal(err)
		}
		if err := core.Convert(t.Context(), dst, src); err != nil {
			t.Fatal(err)
		}
		dst.Close()
		for i, x := range in {
			if got, want := bits(out[first+i*step]), scalar(x); got != want && (got == got || want == want) {
				t.Fatalf("step %d: %v becomes %v, want %v", step, x, got, want)
			}
		}
	}
}

func TestConvertPackedAndPadded(t *testing.T) {
	for name, bits := range map[string]int64{"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "float6_e3m2fn": 6, "float6_e2m3fn": 6, "int2": 2, "uint1": 1, "int7": 7} {
		d, err := core.ParseDType(name)
		if err != nil {
			t.Fatal(err)
		}
		n := int64(1) << bits
		src := bytesTensor(t, d, patternsOr(d, n), []int64{n}, core.FlagSubBytePadded)
		packed := bytesTensor(t, d, make([]byte, n), []int64{n}, 0)
		single := bytesTensor(t, core.TypeFloat32, make([]byte, 4*n), []int64{n}, 0)
		again := bytesTensor(t, d, make([]byte, n), []int64{n}, core.FlagSubBytePadded)
		for i, step := range [][2]*core.Tensor{{packed, src}, {single, packed}, {again, single}} {
			if err := core.Convert(t.Context(), step[0], step[1]); err != nil {
				t.Fatal(name, i, err)
			}
		}
		if a, b := bytesOf(t, src), bytesOf(t, again); !slices.Equal(a, b) {
			t.Errorf("%s: %v became %v", name, a, b)
		}
		back, err := packed.Slice(0, n-1, -1, -1)
		if err == nil {
			back.Close()
			t.Error("a packed view begins inside of a byte")
		}
	}
}

func patternsOr(d core.DType, n int64) []byte {
	p := patterns(d)
	return p[:n]
}

func TestConvertLanesAndComplex(t *testing.T) {
	ctx := t.Context()
	keep := keeper(t)
	reals := keep(core.FromSlice([]float32{1, -2, 3, 4}, 2, 2))
	c := keep(reals.AsType(ctx, core.TypeComplex64))
	if s, err := core.Values[complex64](c); err != nil || !slices.Equal(s, []complex64{1, -2, 3, 4}) {
		t.Errorf("complex: %v, %v", s, err)
	}
	halves := keep(c.AsType(ctx, core.DType{Code: typecode.Complex, Bits: 32, Lanes: 1}))
	brains := keep(halves.AsType(ctx, core.DType{Code: typecode.Bcomplex, Bits: 32, Lanes: 1}))
	wide := keep(brains.AsType(ctx, core.TypeComplex128))
	if s, err := core.Values[complex128](wide); err != nil || !slices.Equal(s, []complex128{1, -2, 3, 4}) {
		t.Errorf("by way of half complex: %v, %v", s, err)
	}
	if _, err := c.AsType(ctx, core.TypeFloat32); !errors.Is(err, core.ErrDType) {
		t.Errorf("complex to float: %v, want ErrDType", err)
	}
	for _, bits := range []uint8{1, 4, 16, 32} { // bools have 8 bits
		content := slices.Repeat([]byte{0xa5}, 16)
		other := bytesTensor(t, core.DType{Code: typecode.Bool, Bits: bits, Lanes: 1}, content, []int64{2}, 0)
		for _, number := range []core.DType{core.TypeUint8, core.TypeFloat32, core.TypeBool} {
			if _, err := other.AsType(ctx, number); !errors.Is(err, core.ErrDType) {
				t.Errorf("bools of %d bits to %v: %v, want ErrDType", bits, number, err)
			}
			numbers := bytesTensor(t, number, []byte{1, 0, 0, 0, 1, 0, 0, 0}, []int64{2}, 0)
			if err := core.Convert(ctx, other, numbers); !errors.Is(err, core.ErrDType) {
				t.Errorf("%v to bools of %d bits: %v, want ErrDType", number, bits, err)
			}
		}
		if same, err := core.EqualBits(ctx, keep(other.AsType(ctx, other.DType())), other); err != nil || !same {
			t.Errorf("bools of %d bits, copied: %v, %v", bits, same, err)
		}
	}
	lanes := keep(bytesTensor(t, core.DType{Code: typecode.Int, Bits: 8, Lanes: 4}, []byte{1, 2, 3, 4, 5, 6, 7, 255}, []int64{2}, 0).AsType(ctx, core.DType{Code: typecode.Int, Bits: 16, Lanes: 4}))
	if got := bytesOf(t, lanes); !slices.Equal(got, []byte{1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 255, 255}) {
		t.Errorf("lanes: %v", got)
	}
}

func TestFloatsThatNoIntegerFits(t *testing.T) {
	keep := keeper(t)
	v := keep(core.FromSlice([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e30, -1e30, 2.9, -2.9, 127.5, -128.9}))
	w := keep(v.AsType(t.Context(), core.TypeInt8))
	if s, err := core.Values[int8](w); err != nil || !slices.Equal(s, []int8{0, 127, -128, 127, -128, 2, -2, 127, -128}) {
		t.Errorf("%v, %v", s, err)
	}
	u := keep(v.AsType(t.Context(), core.TypeUint64))
	if s, err := core.Values[uint64](u); err != nil || !slices.Equal(s, []uint64{0, math.MaxUint64, 0, math.MaxUint64, 0, 2, 0, 127, 0}) {
		t.Errorf("%v, %v", s, err)
	}
	i := keep(v.AsType(t.Context(), core.TypeInt64))
	if s, err := core.Values[int64](i); err != nil || s[1] != math.MaxInt64 || s[2] != math.MinInt64 {
		t.Errorf("%v, %v", s, err)
	}
}

func TestConvertRefuses(t *testing.T) {
	keep := keeper(t)
	ctx := t.Context()
	v, w := keep(core.FromSlice(make([]float32, 6), 2, 3)), keep(core.FromSlice(make([]int16, 6), 2, 3))
	closed := keep(v.Share())
	closed.Close()
	device, err := core.Wrap(core.Memory{ID: core.DeviceID{Type: core.DeviceCUDA}, Handle: 4096, Size: 24}, core.Spec{DType: core.TypeFloat32, Shape: []int64{2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	b, err := v.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	b.Memory()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	odd := keep(core.NewTensor(b, core.Spec{DType: core.TypeInt16, Shape: []int64{2, 3}, Offset: 1}))
	for name, c := range map[string]struct {
		ctx      context.Context
		dst, src *core.Tensor
		want     error
	}{
		"nil":          {ctx, nil, v, core.ErrInvalid},
		"zero":         {ctx, v, new(core.Tensor), core.ErrInvalid},
		"closed":       {ctx, w, closed, core.ErrClosed},
		"device":       {ctx, w, device, core.ErrDevice},
		"read-only":    {ctx, keep(w.AsReadOnly()), v, core.ErrReadOnly},
		"shapes":       {ctx, keep(w.Transpose()), v, core.ErrLayout},
		"itself":       {ctx, v, v, core.ErrLayout},
		"misaligned":   {ctx, w, odd, core.ErrLayout},
		"handles":      {ctx, bytesTensor(t, core.DType{Code: typecode.OpaqueHandle, Bits: 64, Lanes: 1}, nil, []int64{0}, 0), keep(core.FromSlice([]float32{})), core.ErrDType},
		"an ended ctx": {ended, w, v, context.Canceled},
	} {
		if err := core.Convert(c.ctx, c.dst, c.src); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// Nothing is read of an empty tensor, so that its memory may lie anywhere.
func TestConvertTakesEmptyTensorsAtAnyAddress(t *testing.T) {
	keep := keeper(t)
	b, err := keep(core.FromSlice(make([]float32, 2))).Buffer()
	if err != nil {
		t.Fatal(err)
	}
	odd := keep(core.NewTensor(b, core.Spec{DType: core.TypeFloat32, Shape: []int64{0, 4}, Offset: 1}))
	half := keep(odd.AsType(t.Context(), core.TypeFloat16))
	if err := core.Convert(t.Context(), odd, half); err != nil {
		t.Error(err)
	}
}

// Conversions by one way must not depend on the strides, the types of neighbours or the size.
func FuzzConvertStrided(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(5), int8(1), int8(-3))
	f.Fuzz(func(t *testing.T, seed uint64, m, n uint8, a, b int8) {
		if a == 0 || b == 0 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 0))
		in := make([]float32, 1<<16)
		for i := range in {
			in[i] = math.Float32frombits(r.Uint32())
		}
		src, err := core.FromSliceStrided(in, 1<<15, []int64{int64(m), int64(n)}, []int64{int64(a), int64(b)})
		if err != nil {
			return
		}
		defer src.Close()
		dst, err := src.AsType(t.Context(), core.TypeFloat8E5M2)
		if err != nil {
			t.Fatal(err)
		}
		defer dst.Close()
		got, err := core.Values[float.Float8E5M2](dst)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range got {
			f := in[1<<15+i/int(n)*int(a)+i%int(n)*int(b)]
			if want := float.NewFloat8E5M2(f); x != want {
				t.Fatalf("element %d, %v, becomes %v, want %v", i, f, x.Float32(), want.Float32())
			}
		}
	})
}

func TestCloneAndContiguous(t *testing.T) {
	keep := keeper(t)
	ctx := t.Context()
	base := keep(core.FromSlice([]int16{1, 2, 3, 4, 5, 6}, 2, 3))
	turned := keep(keep(base.Transpose()).AsReadOnly())
	c := keep(turned.Clone(ctx))
	if s, err := core.Mutable[int16](c); err != nil || !slices.Equal(s, []int16{1, 4, 2, 5, 3, 6}) {
		t.Errorf("%v, %v", s, err)
	} else {
		s[0] = 9
	}
	if s, _ := core.Values[int16](base); s[0] != 1 {
		t.Error("a clone shares memory")
	}
	same := keep(base.Contiguous(ctx))
	if a, _ := base.Address(); a == 0 {
		t.Error("no address")
	} else if b, _ := same.Address(); a != b {
		t.Error("a row-major tensor was copied")
	}
	if s, err := core.Values[int16](keep(turned.Contiguous(ctx))); err != nil || s[1] != 4 {
		t.Errorf("%v, %v", s, err)
	}
	misaligned, err := base.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	odd := keep(core.NewTensor(misaligned, core.Spec{DType: core.TypeInt32, Shape: []int64{2}, Offset: 1}))
	aligned := keep(odd.Clone(ctx))
	if _, err := core.Values[int32](aligned); err != nil {
		t.Error(err)
	}
	empty := keep(keep(core.FromSlice([]float32{}, 0, 4)).Clone(ctx))
	if !slices.Equal(empty.Shape(), []int64{0, 4}) {
		t.Error(empty)
	}
	packed := bytesTensor(t, core.TypeInt4, []byte{0x21, 0x43, 0x05}, []int64{5}, 0)
	if got := bytesOf(t, keep(packed.Clone(ctx))); !slices.Equal(got, []byte{0x21, 0x43, 0x05}) {
		t.Errorf("packed: %#x", got)
	}
	device, err := core.Wrap(core.Memory{ID: core.DeviceID{Type: core.DeviceCUDA}, Handle: 4096, Size: 24}, core.Spec{DType: core.TypeFloat32, Shape: []int64{6}})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	if _, err := device.Clone(ctx); !errors.Is(err, core.ErrDevice) {
		t.Errorf("memory of nobody's device: %v, want ErrDevice", err)
	}
	var none *core.Tensor
	if _, err := none.Clone(ctx); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("nil: %v", err)
	}
	if _, err := none.Contiguous(ctx); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("nil: %v", err)
	}
}
