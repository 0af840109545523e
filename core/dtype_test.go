package core_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/float"
	"github.com/dlx-go/dlx/core/typecode"
)

func TestDTypeNamesRoundTrip(t *testing.T) {
	for name, want := range map[string]core.DType{
		"float32":            core.TypeFloat32,
		"float16":            core.TypeFloat16,
		"bfloat16":           core.TypeBFloat16,
		"int8":               core.TypeInt8,
		"uint64":             core.TypeUint64,
		"bool":               core.TypeBool,
		"complex64":          core.TypeComplex64,
		"complex128":         core.TypeComplex128,
		"float8_e4m3fn":      {Code: 10, Bits: 8, Lanes: 1},
		"float8_e3m4":        {Code: 7, Bits: 8, Lanes: 1},
		"float8_e4m3":        {Code: 8, Bits: 8, Lanes: 1},
		"float8_e4m3b11fnuz": {Code: 9, Bits: 8, Lanes: 1},
		"float8_e4m3fnuz":    {Code: 11, Bits: 8, Lanes: 1},
		"float8_e5m2":        {Code: 12, Bits: 8, Lanes: 1},
		"float8_e5m2fnuz":    {Code: 13, Bits: 8, Lanes: 1},
		"float8_e8m0fnu":     {Code: 14, Bits: 8, Lanes: 1},
		"float6_e2m3fn":      {Code: 15, Bits: 6, Lanes: 1},
		"float6_e3m2fn":      {Code: 16, Bits: 6, Lanes: 1},
		"float4_e2m1fn":      {Code: 17, Bits: 4, Lanes: 1},
		"float4_e2m1fnx2":    {Code: 17, Bits: 4, Lanes: 2},
		"bcomplex32":         {Code: 18, Bits: 32, Lanes: 1},
		"handle64":           {Code: 3, Bits: 64, Lanes: 1},
		"int4x2":             {Code: 0, Bits: 4, Lanes: 2},
		"uint1":              {Code: 1, Bits: 1, Lanes: 1},
		"float32x4":          {Code: 2, Bits: 32, Lanes: 4},
		"code99b24":          {Code: 99, Bits: 24, Lanes: 1},
		"code6b1x8":          {Code: 6, Bits: 1, Lanes: 8},
		"code10b9":           {Code: 10, Bits: 9, Lanes: 1},
		"int8x0":             {Code: 0, Bits: 8, Lanes: 0},
	} {
		if got := want.String(); got != name {
			t.Errorf("%#v prints as %q, want %q", want, got, name)
		}
		if got, err := core.ParseDType(name); err != nil || got != want {
			t.Errorf("ParseDType(%q) = %#v, %v; want %#v", name, got, err, want)
		}
	}
}

func TestEveryDTypeRoundTrips(t *testing.T) {
	for code := range 256 {
		for bits := range 256 {
			for _, lanes := range []uint16{0, 1, 2, 65535} {
				want := core.DType{Code: typecode.Code(code), Bits: uint8(bits), Lanes: lanes}
				if got, err := core.ParseDType(want.String()); err != nil || got != want {
					t.Fatalf("ParseDType(%q) = %#v, %v; want %#v", want, got, err, want)
				}
			}
		}
	}
}

func TestKnownCodesHaveNames(t *testing.T) {
	for code := range 256 {
		named := false
		for bits := range 256 {
			d := core.DType{Code: typecode.Code(code), Bits: uint8(bits), Lanes: 1}
			named = named || !strings.HasPrefix(d.String(), "code")
		}
		if known := typecode.Code(code).Known(); named != known {
			t.Errorf("code %d has a name: %v; it is known: %v", code, named, known)
		}
	}
}

func TestParseDTypeRefuses(t *testing.T) {
	for _, s := range []string{
		"", "float", "float032", "float-32", "Float32", "float32 ", "bool8", "int4x", "int4x1", "int4x02", "int4x65536",
		"int256", "code2b32", "code256b8", "code99", "x2", "x", "float8_e4m3fn8", "int8x2x2",
	} {
		if got, err := core.ParseDType(s); !errors.Is(err, core.ErrDType) {
			t.Errorf("ParseDType(%q) = %v, %v; want ErrDType", s, got, err)
		}
	}
}

func TestDTypeSize(t *testing.T) {
	int4, fp6 := core.TypeInt4, core.DType{Code: typecode.Float6E2M3FN, Bits: 6, Lanes: 1}
	wide := core.DType{Code: typecode.Int, Bits: 255, Lanes: 65535}
	for _, c := range []struct {
		dtype  core.DType
		n      int64
		padded bool
		want   int64
	}{
		{core.TypeFloat32, 3, false, 12},
		{core.TypeFloat32, 3, true, 12},
		{core.TypeBool, 9, false, 9},
		{int4, 0, false, 0},
		{int4, 3, false, 2},
		{int4, 3, true, 3},
		{core.DType{Code: typecode.Int, Bits: 4, Lanes: 2}, 3, true, 6},
		{fp6, 3, false, 3}, // 18 bits
		{fp6, 4, false, 3},
		{core.DType{Code: typecode.UInt, Bits: 1, Lanes: 1}, math.MaxInt64, false, 1 << 60},
		{core.TypeUint8, math.MaxInt64, false, math.MaxInt64},
		{wide, 1, false, (255*65535 + 7) / 8},
	} {
		if got, err := c.dtype.Size(c.n, c.padded); err != nil || got != c.want {
			t.Errorf("%v.Size(%d, %v) = %d, %v; want %d", c.dtype, c.n, c.padded, got, err, c.want)
		}
	}
	for _, c := range []struct {
		dtype core.DType
		n     int64
		want  error
	}{
		{core.TypeUint8, -1, core.ErrLayout},
		{core.TypeUint16, math.MaxInt64, core.ErrLayout},
		{core.TypeUint16, 1 << 62, core.ErrLayout},
		{wide, math.MaxInt64, core.ErrLayout},
		{core.DType{Bits: 9, Lanes: 1}, math.MaxInt64, core.ErrLayout},
		{core.DType{Bits: 0, Lanes: 1}, 1, core.ErrDType},
		{core.DType{Bits: 8, Lanes: 0}, 1, core.ErrDType},
	} {
		if got, err := c.dtype.Size(c.n, false); !errors.Is(err, c.want) {
			t.Errorf("%v.Size(%d) = %d, %v; want %v", c.dtype, c.n, got, err, c.want)
		}
	}
}

func TestItemSize(t *testing.T) {
	for _, c := range []struct {
		dtype core.DType
		want  int64
		whole bool
	}{
		{core.TypeComplex128, 16, true}, {core.TypeInt4, 0, false},
		{core.DType{Code: typecode.Int, Bits: 4, Lanes: 2}, 1, true}, {core.DType{}, 0, false},
	} {
		if got, whole := c.dtype.ItemSize(); got != c.want || whole != c.whole {
			t.Errorf("%v.ItemSize() = %d, %v; want %d, %v", c.dtype, got, whole, c.want, c.whole)
		}
	}
}

func dtypeOf[T core.Element](t *testing.T, want string) {
	t.Helper()
	if got := core.DTypeOf[T]().String(); got != want {
		t.Errorf("DTypeOf[%T] = %s, want %s", *new(T), got, want)
	}
}

func TestDTypeOf(t *testing.T) {
	dtypeOf[int8](t, "int8")
	dtypeOf[int16](t, "int16")
	dtypeOf[int32](t, "int32")
	dtypeOf[int64](t, "int64")
	dtypeOf[uint8](t, "uint8")
	dtypeOf[uint16](t, "uint16")
	dtypeOf[uint32](t, "uint32")
	dtypeOf[uint64](t, "uint64")
	dtypeOf[float.Float16](t, "float16")
	dtypeOf[float.BFloat16](t, "bfloat16")
	dtypeOf[float32](t, "float32")
	dtypeOf[float64](t, "float64")
	dtypeOf[complex64](t, "complex64")
	dtypeOf[complex128](t, "complex128")
	dtypeOf[bool](t, "bool")
}

func TestDTypeAndDeviceInJSON(t *testing.T) {
	type doc struct {
		DType  core.DType    `json:"dtype"`
		Device core.DeviceID `json:"device"`
	}
	want := doc{core.TypeBFloat16, core.DeviceID{Type: core.DeviceCUDA, Index: 3}}
	text, err := json.Marshal(want)
	if err != nil || string(text) != `{"dtype":"bfloat16","device":"cuda:3"}` {
		t.Fatalf("Marshal = %s, %v", text, err)
	}
	var got doc
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Fatalf("Unmarshal = %v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"dtype":"float33x"}`), &got); !errors.Is(err, core.ErrDType) {
		t.Errorf("a bad dtype gives %v, want ErrDType", err)
	}
	if err := json.Unmarshal([]byte(`{"device":"cuda:-1"}`), &got); !errors.Is(err, core.ErrDevice) {
		t.Errorf("a bad device gives %v, want ErrDevice", err)
	}
}

func FuzzParseDType(f *testing.F) {
	for _, s := range []string{"float32", "int4x2", "code99b24x7", "float8_e4m3fn", "bfloat16", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := core.ParseDType(s); err == nil && d.String() != s {
			t.Errorf("%q parses to %#v, which prints as %q", s, d, d)
		}
		if d, err := core.ParseDevice(s); err == nil {
			if again, err := core.ParseDevice(d.String()); err != nil || again != d {
				t.Errorf("%q parses to %v, which does not survive: %v %v", s, d, again, err)
			}
		}
	})
}
