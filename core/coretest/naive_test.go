package coretest

import (
	"errors"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
)

// wrap makes a host tensor of bytes.
func wrap(t *testing.T, b []byte, s core.Spec) *core.Tensor {
	t.Helper()
	whole, err := core.FromSlice(b)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	buffer, _ := whole.Buffer()
	x, err := core.NewTensor(buffer, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

func TestCopyNaive(t *testing.T) {
	u8, u16, u4 := core.TypeUint8, core.TypeUint16, core.DType{Code: typecode.UInt, Bits: 4, Lanes: 1}
	u3x3 := core.DType{Code: typecode.UInt, Bits: 3, Lanes: 3}
	f6 := core.DType{Code: typecode.Float6E2M3FN, Bits: 6, Lanes: 1}
	ones := func(n int) []byte { return slices.Repeat([]byte{0xff}, n) }
	for _, c := range []struct {
		name          string
		dtype         core.DType
		src           []byte
		from          core.Spec
		before, after []byte
		to            core.Spec
	}{
		{name: "0-d", dtype: u16, src: []byte{1, 2}, before: ones(3), after: []byte{1, 2, 0xff}},
		{name: "no elements", dtype: u8, src: []byte{1}, from: core.Spec{Shape: []int64{0, 3}}, before: ones(1), after: ones(1), to: core.Spec{Shape: []int64{0, 3}}},
		{
			name: "transpose", dtype: u8, src: []byte{1, 2, 3, 4, 5, 6},
			from:   core.Spec{Shape: []int64{3, 2}, Strides: []int64{1, 3}},
			before: ones(6), after: []byte{1, 4, 2, 5, 3, 6}, to: core.Spec{Shape: []int64{3, 2}},
		},
		{
			name: "negative strides", dtype: u16, src: []byte{1, 2, 3, 4, 5, 6},
			from:   core.Spec{Shape: []int64{3}, Strides: []int64{-1}, Offset: 4},
			before: ones(6), after: []byte{5, 6, 3, 4, 1, 2}, to: core.Spec{Shape: []int64{3}},
		},
		{
			name: "repeated elements into every second", dtype: u8, src: []byte{9},
			from:   core.Spec{Shape: []int64{3}, Strides: []int64{0}},
			before: ones(6), after: []byte{9, 0xff, 9, 0xff, 9, 0xff}, to: core.Spec{Shape: []int64{3}, Strides: []int64{2}},
		},
		{ // the low nibble comes first; neighbours stay
			name: "packed nibbles backwards", dtype: u4, src: []byte{0x21, 0x03},
			from:   core.Spec{Shape: []int64{3}},
			before: ones(2), after: []byte{0x23, 0xf1}, to: core.Spec{Shape: []int64{3}, Strides: []int64{-1}, Offset: 1},
		},
		{
			name: "six bits across bytes", dtype: f6, src: []byte{0b01_000001, 0b0010_0000, 0b111111_01},
			from:   core.Spec{Shape: []int64{3}},
			before: ones(3), after: []byte{0b01_000001, 0b0010_0000, 0b111111_01}, to: core.Spec{Shape: []int64{3}},
		},
		{
			name: "nine bits", dtype: u3x3, src: []byte{0x00, 0x01},
			from:   core.Spec{Shape: []int64{1}},
			before: ones(2), after: []byte{0x00, 0xff}, to: core.Spec{Shape: []int64{1}},
		},
		{
			name: "padded", dtype: u4, src: []byte{1, 2, 3},
			from:   core.Spec{Shape: []int64{2}, Strides: []int64{2}, Flags: core.FlagSubBytePadded},
			before: ones(3), after: []byte{1, 3, 0xff}, to: core.Spec{Shape: []int64{2}, Flags: core.FlagSubBytePadded},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.from.DType, c.to.DType = c.dtype, c.dtype
			if err := CopyNaive(wrap(t, c.before, c.to), wrap(t, c.src, c.from)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(c.before, c.after) {
				t.Errorf("got %x, want %x", c.before, c.after)
			}
		})
	}
}

func TestCopyNaiveRefuses(t *testing.T) {
	x := wrap(t, make([]byte, 4), core.Spec{DType: core.TypeUint8, Shape: []int64{4}})
	y := wrap(t, make([]byte, 4), core.Spec{DType: core.TypeUint16, Shape: []int64{2}})
	if err := CopyNaive(x, y); !errors.Is(err, core.ErrDType) {
		t.Errorf("different types: %v", err)
	}
	if err := CopyNaive(x, nil); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("nil: %v", err)
	}
}
