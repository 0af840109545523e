package exchange_test

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/exchange"
)

// sameElements compares two tensors of the host by copies that the oracle makes.
func sameElements(t testing.TB, x, y *core.Tensor) bool {
	t.Helper()
	return string(rowMajor(t, x)) == string(rowMajor(t, y))
}

// rowMajor returns the elements of a tensor of the host one after the other, as
// the oracle copies them.
func rowMajor(t testing.TB, x *core.Tensor) []byte {
	t.Helper()
	bytes := make([]byte, x.NumBytes())
	if len(bytes) == 0 {
		return nil
	}
	b, err := core.FromSlice(bytes)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	buffer, err := b.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	dst, err := core.NewTensor(buffer, core.Spec{DType: x.DType(), Shape: x.Shape(), Flags: x.Flags() & core.FlagSubBytePadded})
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	if err := coretest.CopyNaive(dst, x); err != nil {
		t.Fatal(err)
	}
	return bytes
}

// FuzzLayouts moves tensors of any layout from a device to another and back to the
// host, by every mechanism, and compares with what the oracle copies.
func FuzzLayouts(f *testing.F) {
	f.Add(uint8(32), int8(2), int8(3), int8(4), int8(12), int8(4), int8(1), uint16(0))
	f.Add(uint8(8), int8(5), int8(1), int8(7), int8(-9), int8(0), int8(2), uint16(200))
	f.Add(uint8(4), int8(3), int8(3), int8(3), int8(1), int8(-7), int8(5), uint16(99))
	f.Add(uint8(64), int8(0), int8(1), int8(1), int8(1), int8(1), int8(1), uint16(8))
	h := host(f)
	a, b := newFakes(f, 0, exports|imports|hostView|mapHost|peer)
	b.visible = true
	memory := make([]uint8, 1024)
	for i := range memory {
		memory[i] = uint8(i*7 + i>>3)
	}
	raw := slice(f, memory)
	rb, err := raw.Buffer()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, bits uint8, n0, n1, n2, s0, s1, s2 int8, offset uint16) {
		src, err := core.NewTensor(rb, core.Spec{
			DType:   core.DType{Code: typecode.Int, Bits: bits, Lanes: 1},
			Shape:   []int64{int64(n0), int64(n1), int64(n2)},
			Strides: []int64{int64(s0), int64(s1), int64(s2)},
			Offset:  int64(offset),
		})
		if err != nil || src.NumElements() > 4096 {
			if err == nil {
				_ = src.Close()
			}
			t.Skip()
		}
		defer src.Close()
		want := string(rowMajor(t, src))
		for _, o := range []exchange.Options{{}, {Copy: exchange.Always}, {Only: exchange.Staged}, {Only: exchange.Peer}} {
			if src.IsEmpty() && o.Only != 0 {
				continue
			}
			onA, _, err := exchange.To(t.Context(), src, a, exchange.Options{})
			if err != nil {
				t.Fatal(err)
			}
			onB, report, err := exchange.To(t.Context(), onA, b, o)
			if err != nil {
				t.Fatal(err)
			}
			back, _, err := exchange.To(t.Context(), onB, h, exchange.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := back.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := string(rowMajor(t, back)); got != want {
				t.Errorf("%v strides %v by %v: % x, want % x", src, src.Layout().Strides(), report.Mechanism, got, want)
			}
			for _, x := range []*core.Tensor{back, onB, onA} {
				_ = x.Close()
			}
		}
	})
}
