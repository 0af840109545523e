//go:build cgo && !windows

package dlpack_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/core/dlpack/internal/hostile"
	"github.com/dlx-go/dlx/core/internal/abi"
)

// waitFor polls for what happens on other threads.
func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}

func TestExportDescribesTheTensor(t *testing.T) {
	tensor := iota32(t, 4, 5)
	view := must[*core.Tensor](t)(tensor.Slice(0, 3, -1, -2))
	defer closeTensor(t, view)
	m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(view))
	defer dlpack.Delete(m)

	want := abi.Tensor{
		Data:   must[uintptr](t)(view.Address()),
		Device: abi.Device{Type: 1},
		NDim:   2,
		DType:  abi.DataType{Code: 2, Bits: 32, Lanes: 1},
		Shape:  m.Tensor.Shape, Strides: m.Tensor.Strides,
	}
	if m.Tensor != want {
		t.Errorf("the struct says %+v, want %+v", m.Tensor, want)
	}
	if m.Version != (abi.Version{Major: 1, Minor: 3}) || m.Flags != 0 || m.Deleter == 0 {
		t.Errorf("version %v, flags %d, deleter %#x", m.Version, m.Flags, m.Deleter)
	}
	if shape, strides := int64s(m.Tensor.Shape, 2), int64s(m.Tensor.Strides, 2); !slices.Equal(shape, []int64{2, 5}) || !slices.Equal(strides, []int64{-10, 1}) {
		t.Errorf("shape %v, strides %v", shape, strides)
	}
}

func TestLegacyExportDescribesTheTensor(t *testing.T) {
	tensor := iota32(t, 2, 3, 4, 5, 6) // more axes than a narrow node has room for
	m := must[*dlpack.ManagedTensor](t)(dlpack.ExportLegacy(tensor))
	defer dlpack.DeleteLegacy(m)
	if m.Tensor.NDim != 5 || m.Tensor.Data != must[uintptr](t)(tensor.Address()) || m.Deleter == 0 {
		t.Errorf("%+v", m)
	}
	if shape, strides := int64s(m.Tensor.Shape, 5), int64s(m.Tensor.Strides, 5); !slices.Equal(shape, []int64{2, 3, 4, 5, 6}) || !slices.Equal(strides, []int64{360, 120, 30, 6, 1}) {
		t.Errorf("shape %v, strides %v", shape, strides)
	}
}

func TestExportKeepsTheMemoryAfterClose(t *testing.T) {
	freed := false
	block := make([]byte, 64)
	source := must[*core.Tensor](t)(core.FromSlice(block))
	defer closeTensor(t, source)
	tensor := must[*core.Tensor](t)(core.Wrap(core.Memory{
		ID: core.CPU, Handle: must[uintptr](t)(source.Address()), Size: 64,
		Owner: core.FreeFunc(func() { freed = true }),
	}, core.Spec{DType: core.TypeUint8, Shape: []int64{64}}))
	m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
	closeTensor(t, tensor)
	dlpack.Flush()
	if freed {
		t.Fatal("the memory was freed while a consumer has it")
	}
	dlpack.Delete(m)
	dlpack.Flush()
	if !freed {
		t.Error("the memory was not freed with the consumer")
	}
}

func TestExportRefuses(t *testing.T) {
	closed := iota32(t, 1)
	closeTensor(t, closed)
	_, err := dlpack.Export(nil)
	wantError(t, err, core.ErrInvalid)
	_, err = dlpack.ExportLegacy(nil)
	wantError(t, err, core.ErrInvalid)
	_, err = dlpack.ExportCopied(nil)
	wantError(t, err, core.ErrInvalid)
	_, err = dlpack.Export(closed)
	wantError(t, err, core.ErrClosed)
	_, err = dlpack.ExportLegacy(closed)
	wantError(t, err, core.ErrClosed)
	_, err = dlpack.ExportCopied(closed)
	wantError(t, err, core.ErrClosed)
}

func TestOnlyASoleOwnerCanGiveACopyAway(t *testing.T) {
	tensor := iota32(t, 2)
	view := must[*core.Tensor](t)(tensor.Share())
	_, err := dlpack.ExportCopied(tensor)
	wantError(t, err, core.ErrInvalid)
	closeTensor(t, view)

	dlpack.Delete(must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))) // no longer counts
	m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.ExportCopied(tensor))
	if m.Flags != abi.FlagCopied {
		t.Errorf("flags %d", m.Flags)
	}
	if _, err := tensor.Buffer(); err == nil {
		t.Error("the tensor is still open: the consumer is not the sole owner")
	}
	imported := must[*core.Tensor](t)(dlpack.Import(m, dlpack.ImportOptions{}))
	defer closeTensor(t, imported)
	if imported.Flags() != core.FlagCopied {
		t.Errorf("flags %d after the import", imported.Flags())
	}
	again := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(imported))
	defer dlpack.Delete(again)
	if again.Flags != 0 {
		t.Error("a plain export leaves two owners and must not be flagged as a copy")
	}
}

func TestRoundTripKeepsEveryLayout(t *testing.T) {
	base := iota32(t, 4, 6)
	for name, view := range map[string]func() (*core.Tensor, error){
		"row-major":     base.Share,
		"transposed":    base.Transpose,
		"every second":  func() (*core.Tensor, error) { return base.Slice(1, 0, 6, 2) },
		"reversed":      func() (*core.Tensor, error) { return base.Slice(0, 3, -1, -1) },
		"one element":   func() (*core.Tensor, error) { return base.Slice(1, 5, 6, 1) },
		"no element":    func() (*core.Tensor, error) { return base.Slice(1, 3, 3, 1) },
		"extra axes":    func() (*core.Tensor, error) { return base.Reshape(1, 2, 2, 1, 3, 2) },
		"one axis less": func() (*core.Tensor, error) { return base.Index(0, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			v := must[*core.Tensor](t)(view())
			defer closeTensor(t, v)
			m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(v))
			seenInC := hostile.Gather(&m.Tensor, int(v.NumElements()), 4)
			back := must[*core.Tensor](t)(dlpack.Import(m, dlpack.ImportOptions{}))
			defer closeTensor(t, back)
			if !back.Layout().Equal(v.Layout()) || back.DType() != v.DType() {
				t.Errorf("%v came back as %v", v, back)
			}
			want := slices.Collect(must[iterator](t)(all(v)))
			if got := slices.Collect(must[iterator](t)(all(back))); !slices.Equal(got, want) {
				t.Errorf("elements %v came back as %v", want, got)
			}
			if got := float32s(seenInC); !slices.Equal(got, want) {
				t.Errorf("C saw %v, want %v", got, want)
			}
		})
	}
}

func TestManyExportsAreAliveAtOnce(t *testing.T) {
	tensor := iota32(t, 3)
	for _, n := range []int{1, 63, 64, 65, 2000} {
		seen := make(map[*dlpack.ManagedTensorVersioned]bool)
		for range n {
			seen[must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))] = true
		}
		if len(seen) != n {
			t.Errorf("%d exports share %d structs", n, len(seen))
		}
		wantLive(t, "dlpack.Export", int64(n))
		for m := range seen {
			dlpack.Delete(m)
		}
		wantLive(t, "dlpack.Export", 0)
	}
}
