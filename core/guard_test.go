package core_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/typecode"
)

// Each function that accesses elements on the host returns an error if their memory is that
// of a file that was truncated, for any strides and types.
func TestMemoryOfATruncatedFile(t *testing.T) {
	ctx := t.Context()
	bytes, err := coretest.Truncated(t, 1<<16).Reshape(256, 256)
	if err != nil {
		t.Fatal(err)
	}
	defer bytes.Close()
	columns, err := bytes.Transpose()
	if err != nil {
		t.Fatal(err)
	}
	defer columns.Close()
	b, err := bytes.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	packed, err := core.Wrap(
		core.Memory{ID: core.CPU, Handle: b.Memory().Handle, Size: 1 << 15},
		core.Spec{DType: core.DType{Code: typecode.Int, Bits: 4, Lanes: 1}, Shape: []int64{256, 256}},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	whole, err := core.FromSlice(make([]uint8, 1<<16), 256, 256)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	failed := func(name string, err error) {
		t.Helper()
		if !errors.Is(err, core.ErrInvalid) || !errors.Is(err, syscall.EFAULT) || !strings.Contains(err.Error(), "truncated") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, x := range map[string]*core.Tensor{"row-major": bytes, "columns": columns} {
		_, err = core.At[uint8](x, 3, 4)
		failed(name+": At", err)
		failed(name+": Set", core.Set[uint8](x, 1, 255, 255))
		failed(name+": Fill", core.Fill[uint8](ctx, x, 1))
		_, err = core.ToSlice[uint8](ctx, x)
		failed(name+": ToSlice", err)
		failed(name+": Convert from", core.Convert(ctx, whole, x))
		failed(name+": Convert to", core.Convert(ctx, x, whole))
		_, err = x.AsType(ctx, core.TypeFloat32)
		failed(name+": AsType", err)
	}
	_, err = columns.Contiguous(ctx)
	failed("Contiguous", err)
	for name, x := range map[string]*core.Tensor{"row-major": bytes, "columns": columns, "packed": packed} {
		_, err = x.Clone(ctx)
		failed(name+": Clone", err)
		_, err = x.Text(ctx, core.TextOptions{})
		failed(name+": Text", err)
		if got, want := fmt.Sprintf("%+v", x), x.String(); got != want {
			t.Errorf("%s: Format printed %q, and not %q", name, got, want)
		}
		other := whole
		if x == packed { // a dense row is equal to itself at once
			other = packed
		}
		_, err = core.Equal(ctx, x, other)
		failed(name+": Equal", err)
		_, err = core.EqualBits(ctx, other, x)
		failed(name+": EqualBits", err)
	}
}
