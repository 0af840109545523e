package exchange_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
)

// A driver is not given the memory of a file that was truncated: it would end the process.
func TestATruncatedFileIsNotGivenToADriver(t *testing.T) {
	a, _ := newFakes(t, 0, 0)
	b, err := coretest.Truncated(t, 1<<20).Buffer()
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]core.Spec{
		"row-major": {Shape: []int64{4, 1 << 18}},
		"rows":      {Shape: []int64{4, 10}, Strides: []int64{1 << 18, 1}},
		"backwards": {Shape: []int64{4, 10}, Strides: []int64{-1 << 18, 1}, Offset: 3 << 18},
		"columns":   {Shape: []int64{1 << 18, 4}, Strides: []int64{1, 1 << 18}},
	} {
		s.DType, s.Flags = core.TypeUint8, core.FlagReadOnly
		x, err := core.Wrap(core.Memory{ID: core.CPU, Handle: b.Memory().Handle, Size: 1 << 20}, s)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = exchange.To(t.Context(), x, a, exchange.Options{})
		if !errors.Is(err, core.ErrInvalid) || !errors.Is(err, syscall.EFAULT) {
			t.Errorf("%s: %v", name, err)
		}
		_, _, err = exchange.ToAll(t.Context(), []*core.Tensor{x, x}, a, exchange.Options{})
		if !errors.Is(err, core.ErrInvalid) || !errors.Is(err, syscall.EFAULT) {
			t.Errorf("%s: ToAll: %v", name, err)
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := a.called("Copy"); n != 0 {
		t.Errorf("%d copies reached the device", n)
	}
}

// A driver is not given the memory of a file that was truncated.
func TestStackOfATruncatedFile(t *testing.T) {
	a, _ := newFakes(t, 0, 0)
	x := coretest.Keep(t)(coretest.Truncated(t, 1<<16).AsReadOnly())
	got, err := core.Stack(t.Context(), []*core.Tensor{x, x}, 0, core.AllocOptions{Stream: newStream(t, a)})
	if !errors.Is(err, core.ErrInvalid) || !errors.Is(err, syscall.EFAULT) || got != nil || a.called("Copy") != 0 {
		t.Errorf("%v, %v, after %d copies", got, err, a.called("Copy"))
	}
}
