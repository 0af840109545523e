//go:build cgo && !windows

package dlpack_test

import (
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/core/dlpack/internal/hostile"
	"github.com/dlx-go/dlx/core/internal/abi"
)

// iota32 is a float32 CPU tensor of the given shape with the elements 0, 1, 2...
func iota32(t testing.TB, shape ...int64) *core.Tensor {
	t.Helper()
	n := int64(1)
	for _, extent := range shape {
		n *= extent
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	tensor, err := core.FromSlice(values, shape...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTensor(t, tensor) })
	return tensor
}

// closeTensor closes at once what a test must not keep until its end.
func closeTensor(t testing.TB, tensor *core.Tensor) {
	t.Helper()
	if err := tensor.Close(); err != nil {
		t.Error(err)
	}
}

// must fails the test on an error.
func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// wantError checks the sentinel and that the error is typed.
func wantError(t *testing.T, err, sentinel error) {
	t.Helper()
	var typed *core.Error
	if !errors.Is(err, sentinel) || !errors.As(err, &typed) {
		t.Errorf("the error is %v, want a *core.Error that wraps %q", err, sentinel)
	}
}

// wantLive checks a live counter.
func wantLive(t *testing.T, name string, want int64) {
	t.Helper()
	if got := core.Live()[name]; got != want {
		t.Errorf("%d live %s, want %d", got, name, want)
	}
}

// int64s reads n numbers of C memory. It is not inlined, since Go 1.26 fails to
// compile a copy of a constant length from an address that is not a Go pointer.
//
//go:noinline
func int64s(address uintptr, n int32) []int64 {
	return slices.Clone(unsafe.Slice((*int64)(abi.Pointer(address)), n))
}

// anyMemory is memory that foreign tensors of the tests stand on; it is never read.
var anyMemory [256]byte

// memory is the address of anyMemory.
func memory() uintptr { return uintptr(unsafe.Pointer(&anyMemory[0])) }

// valid are the fields of a good foreign tensor: float32, 2x3, row-major.
func valid() hostile.Fields {
	return hostile.Fields{
		Version: abi.Version{Major: 1, Minor: 3},
		Data:    memory(),
		Device:  abi.Device{Type: 1},
		NDim:    2,
		DType:   abi.DataType{Code: 2, Bits: 32, Lanes: 1},
		Shape:   []int64{2, 3},
		Strides: []int64{3, 1},
	}
}

// lend frees a producer after the test, when nothing refers to it any more.
func lend(t testing.TB, p hostile.Producer) hostile.Producer {
	t.Cleanup(func() {
		dlpack.Flush()
		p.Free()
	})
	return p
}

// importing is one of the two structs and its import, by default without options.
type importing struct {
	name string
	new  func(hostile.Fields) hostile.Producer
	take func(hostile.Producer, ...dlpack.ImportOptions) (*core.Tensor, error)
}

var bothStructs = []importing{
	{"versioned", hostile.New, func(p hostile.Producer, o ...dlpack.ImportOptions) (*core.Tensor, error) {
		return dlpack.Import(p.Versioned(), append(o, dlpack.ImportOptions{})[0])
	}},
	{"legacy", hostile.NewLegacy, func(p hostile.Producer, o ...dlpack.ImportOptions) (*core.Tensor, error) {
		return dlpack.ImportLegacy(p.Legacy(), append(o, dlpack.ImportOptions{})[0])
	}},
}

// iterator is what core.All returns for float32.
type iterator = iter.Seq[float32]

func all(t *core.Tensor) (iterator, error) { return core.All[float32](t) }

// float32s reads native bytes.
func float32s(b []byte) []float32 {
	var v []float32
	for ; len(b) > 0; b = b[4:] {
		v = append(v, math.Float32frombits(binary.NativeEndian.Uint32(b)))
	}
	return v
}
