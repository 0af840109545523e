package backendkit_test

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// TestSmallCopyTakesOnlyWhatNeedsNoMoreChecks tries one copy of each kind. All those that it does not take go to
// CheckCopy, which the conformance suite tests.
func TestSmallCopyTakesOnlyWhatNeedsNoMoreChecks(t *testing.T) {
	const limit = 64
	bytes := make([]byte, 1024)
	wrap := func(m core.Memory, s core.Spec) *core.Tensor {
		t.Helper()
		x, err := core.Wrap(m, s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = x.Close() })
		return x
	}
	u8 := core.TypeUint8
	slice := func(from, to int64) *core.Tensor {
		t.Helper()
		x, err := core.FromSlice(bytes[from:to])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = x.Close() })
		return x
	}
	memory := func(from int64) core.Memory {
		b, _ := slice(from, from+128).Buffer()
		return b.Memory()
	}
	with := func(x *core.Tensor, f func(*core.Buffer)) *core.Tensor {
		b, _ := x.Buffer()
		f(b)
		return x
	}
	pending, done, failed := stream.NewEvent(), stream.NewEvent(), stream.NewEvent()
	done.Complete(nil)
	failed.Complete(errors.New("the write failed"))
	t.Cleanup(func() { pending.Complete(nil) })
	closed := slice(0, 64)
	_ = closed.Close()
	origin := slice(512, 1024)
	root, _ := origin.Buffer()
	device, mapped := memory(256), memory(256)
	device.ID = core.DeviceID{Type: core.DeviceCUDAHost}
	mapped.Host = mapped.Handle
	a, b := slice(0, 64), slice(64, 128)
	for _, c := range []struct {
		name     string
		dst, src *core.Tensor
		size     int64
	}{
		{"bytes", a, b, 64},
		{"a matrix", wrap(memory(0), core.Spec{DType: core.TypeInt32, Shape: []int64{2, 1, 4}}), wrap(memory(64), core.Spec{DType: core.TypeInt32, Shape: []int64{2, 1, 4}}), 32},
		{"a scalar", wrap(memory(0), core.Spec{DType: core.TypeFloat64}), wrap(memory(64), core.Spec{DType: core.TypeFloat64}), 8},
		{"whole bytes of 4 bits", wrap(memory(0), core.Spec{DType: core.TypeInt4, Shape: []int64{6}}), wrap(memory(64), core.Spec{DType: core.TypeInt4, Shape: []int64{6}}), 3},
		{"after work that is done", with(slice(0, 64), func(b *core.Buffer) { b.Wrote(done) }), with(slice(64, 128), func(b *core.Buffer) { b.Used(done) }), 64},

		{"a part of a byte", wrap(memory(0), core.Spec{DType: core.TypeInt4, Shape: []int64{5}}), wrap(memory(64), core.Spec{DType: core.TypeInt4, Shape: []int64{5}}), 0},
		{"too much", slice(0, 65), slice(65, 130), 0},
		{"too much of wide elements", wrap(memory(0), core.Spec{DType: core.DType{Code: u8.Code, Bits: 8, Lanes: 33}, Shape: []int64{2}}), wrap(memory(64), core.Spec{DType: core.DType{Code: u8.Code, Bits: 8, Lanes: 33}, Shape: []int64{2}}), 0},
		{"nothing", slice(0, 0), slice(0, 0), 0},
		{"nil", nil, b, 0},
		{"of nil", a, nil, 0},
		{"closed", closed, b, 0},
		{"of closed", a, closed, 0},
		{"read-only", wrap(memory(0), core.Spec{DType: u8, Shape: []int64{64}, Flags: core.FlagReadOnly}), b, 0},
		{"other elements", wrap(memory(0), core.Spec{DType: core.TypeInt8, Shape: []int64{64}}), b, 0},
		{"padded", wrap(memory(0), core.Spec{DType: core.TypeInt4, Shape: []int64{6}, Flags: core.FlagSubBytePadded}), wrap(memory(64), core.Spec{DType: core.TypeInt4, Shape: []int64{6}}), 0},
		{"another shape", wrap(memory(0), core.Spec{DType: u8, Shape: []int64{8, 8}}), b, 0},
		{"another rank", wrap(memory(0), core.Spec{DType: u8, Shape: []int64{64, 1}}), b, 0},
		{"with steps", wrap(memory(0), core.Spec{DType: u8, Shape: []int64{32}, Strides: []int64{2}}), slice(64, 96), 0},
		{"repeated", wrap(memory(0), core.Spec{DType: u8, Shape: []int64{32}, Strides: []int64{0}}), slice(64, 96), 0},
		{"the same", a, a, 0},
		{"the same address", a, slice(0, 64), 0},
		{"overlapping above", slice(63, 127), b, 0},
		{"overlapping below", slice(1, 65), b, 0},
		{"memory of a device", wrap(device, core.Spec{DType: u8, Shape: []int64{64}}), b, 0},
		{"memory with another address", wrap(mapped, core.Spec{DType: u8, Shape: []int64{64}}), b, 0},
		{"memory of another origin", with(slice(512, 576), func(b *core.Buffer) { b.OrderWith(root, 0) }), b, 0},
		{"being written", with(slice(0, 64), func(b *core.Buffer) { b.Wrote(pending) }), b, 0},
		{"being read", with(slice(0, 64), func(b *core.Buffer) { b.Used(pending) }), b, 0},
		{"of what is written", a, with(slice(64, 128), func(b *core.Buffer) { b.Wrote(pending) }), 0},
		{"of what failed", a, with(slice(64, 128), func(b *core.Buffer) { b.Wrote(failed) }), 0},
	} {
		to, from, at, of, size := backendkit.SmallCopy(c.dst, c.src, limit)
		switch {
		case size != c.size, (to != nil) != (c.size != 0), (from != nil) != (c.size != 0):
			t.Errorf("%s: %d bytes, buffers %v, %v; want %d bytes", c.name, size, to != nil, from != nil, c.size)
		case size != 0:
			if m := to.Memory(); at != m.Handle+uintptr(c.dst.Offset()) {
				t.Errorf("%s: the destination is at %#x", c.name, at)
			}
			if m := from.Memory(); of != m.Handle+uintptr(c.src.Offset()) {
				t.Errorf("%s: the source is at %#x", c.name, of)
			}
			to.Release()
			from.Release()
		}
	}
}

func TestSmallCopyHoldsTheMemory(t *testing.T) {
	freed := 0
	bytes := make([]byte, 128)
	counted := func(from int64) *core.Tensor {
		whole, err := core.FromSlice(bytes[from : from+64])
		if err != nil {
			t.Fatal(err)
		}
		b, _ := whole.Buffer()
		m := b.Memory()
		m.Owner = core.FreeFunc(func() { freed++; _ = whole.Close() })
		x, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{64}})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	dst, src := counted(0), counted(64)
	to, from, _, _, size := backendkit.SmallCopy(dst, src, 64)
	if size != 64 {
		t.Fatal(size)
	}
	_, _, _, _, overlapping := backendkit.SmallCopy(dst, dst, 64) // gives back what it has held
	_ = dst.Close()
	_ = src.Close()
	if freed != 0 || overlapping != 0 {
		t.Errorf("%d memories were freed during the copy; %d bytes of a copy onto itself", freed, overlapping)
	}
	to.Release()
	from.Release()
	if freed != 2 {
		t.Errorf("%d memories were freed after the copy, want 2", freed)
	}
}
