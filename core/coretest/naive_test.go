package coretest

import (
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
)

func TestCopyNaive(t *testing.T) {
	u8, u16, u4 := core.TypeUint8, core.TypeUint16, core.DType{Code: typecode.UInt, Bits: 4, Lanes: 1}
	u3x3 := core.DType{Code: typecode.UInt, Bits: 3, Lanes: 3}
	f6 := core.DType{Code: typecode.Float6E2M3FN, Bits: 6, Lanes: 1}
	ones := func(n int) []byte { return slices.Repeat([]byte{0xff}, n) }
	tight := func(shape ...int64) core.Spec { return core.Spec{Shape: shape} }
	for _, c := range []struct {
		name          string
		dtype         core.DType
		src           []byte
		from          core.Spec
		before, after []byte
		to            core.Spec
	}{
		{"0-d", u16, []byte{1, 2}, tight(), ones(3), []byte{1, 2, 0xff}, tight()},
		{"no elements", u8, []byte{1}, tight(0, 3), ones(1), ones(1), tight(0, 3)},
		{
			"transpose", u8, []byte{1, 2, 3, 4, 5, 6}, core.Spec{Shape: []int64{3, 2}, Strides: []int64{1, 3}},
			ones(6), []byte{1, 4, 2, 5, 3, 6}, tight(3, 2),
		},
		{
			"negative strides", u16, []byte{1, 2, 3, 4, 5, 6}, core.Spec{Shape: []int64{3}, Strides: []int64{-1}, Offset: 4},
			ones(6), []byte{5, 6, 3, 4, 1, 2}, tight(3),
		},
		{
			"repeated elements into every second", u8, []byte{9}, core.Spec{Shape: []int64{3}, Strides: []int64{0}},
			ones(6), []byte{9, 0xff, 9, 0xff, 9, 0xff}, core.Spec{Shape: []int64{3}, Strides: []int64{2}},
		},
		{ // the low nibble comes first; neighbours stay
			"packed nibbles backwards", u4, []byte{0x21, 0x03}, tight(3),
			ones(2), []byte{0x23, 0xf1}, core.Spec{Shape: []int64{3}, Strides: []int64{-1}, Offset: 1},
		},
		{
			"six bits across bytes", f6, []byte{0b01_000001, 0b0010_0000, 0b111111_01}, tight(3),
			ones(3), []byte{0b01_000001, 0b0010_0000, 0b111111_01}, tight(3),
		},
		{"nine bits", u3x3, []byte{0x00, 0x01}, tight(1), ones(2), []byte{0x00, 0xff}, tight(1)},
		{
			"padded", u4, []byte{1, 2, 3}, core.Spec{Shape: []int64{2}, Strides: []int64{2}, Flags: core.FlagSubBytePadded},
			ones(3), []byte{1, 3, 0xff}, core.Spec{Shape: []int64{2}, Flags: core.FlagSubBytePadded},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.from.DType, c.to.DType = c.dtype, c.dtype
			must(t, CopyNaive(wrap(t, c.before, c.to), wrap(t, c.src, c.from)))
			if !slices.Equal(c.before, c.after) {
				t.Errorf("got %x, want %x", c.before, c.after)
			}
		})
	}
	x, y := array(t, make([]uint8, 4)), array(t, make([]uint16, 4))
	WantError(t, CopyNaive(x, y), core.ErrDType, "different types")
	WantError(t, CopyNaive(x, nil), core.ErrInvalid, "nil")
}
