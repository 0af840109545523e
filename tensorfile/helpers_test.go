package tensorfile_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// realFiles are the files of the project's testdata that hold tensors.
var realFiles = []string{
	"digits.npy", "digits_target.npy", "digits_fortran.npy", "digits.npz", "digits_compressed.npz", "digits.safetensors",
}

func realPath(name string) string { return filepath.Join("..", "testdata", name) }

func realData(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(realPath(name))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// must stops the test on an error, and closes what was opened at its end.
func must[T interface{ Close() error }](tb testing.TB) func(v T, err error) T {
	tb.Helper()
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = v.Close() })
		return v
	}
}

// memoryOf returns all bytes that the elements of t reach, and where the first element lies among them.
func memoryOf(tb testing.TB, t *core.Tensor) (data []byte, first int64) {
	tb.Helper()
	b, err := t.Buffer()
	if err != nil {
		tb.Fatal(err)
	}
	low, high := int64(0), t.NumBytes()
	if !t.Layout().IsContiguous() {
		size, _ := t.DType().ItemSize()
		low, high = t.Layout().Extent()
		low, high = low*size, high*size
	}
	view := must[*core.Tensor](tb)(core.NewTensor(b, core.Spec{
		DType: core.TypeUint8, Shape: []int64{high - low}, Offset: t.Offset() - b.Memory().Offset + low,
	}))
	data, err = core.Values[uint8](view)
	if err != nil {
		tb.Fatal(err)
	}
	return data, -low
}

// elements returns the elements of t in row-major order, found index by index.
func elements(tb testing.TB, t *core.Tensor) []byte {
	tb.Helper()
	data, first := memoryOf(tb, t)
	size, whole := t.DType().ItemSize()
	if !whole {
		return data // packed elements are never strided here
	}
	l := t.Layout()
	var out []byte
	for n := range l.NumElements() {
		at := first
		for axis, rest := l.Rank()-1, n; axis >= 0; axis-- {
			at += rest % l.Dim(axis) * l.Stride(axis) * size
			rest /= l.Dim(axis)
		}
		out = append(out, data[at:at+size]...)
	}
	return out
}

// filled makes a row-major tensor of any type with elements that look random; booleans are 0 and 1.
func filled(tb testing.TB, dtype core.DType, shape ...int64) *core.Tensor {
	tb.Helper()
	l, err := core.NewLayout(shape...)
	if err != nil {
		tb.Fatal(err)
	}
	size, err := dtype.Size(l.NumElements(), false)
	if err != nil {
		tb.Fatal(err)
	}
	random := rand.New(rand.NewPCG(uint64(size), uint64(dtype.Code)))
	data := make([]uint64, size/8+1)
	bytes := must[*core.Tensor](tb)(core.FromSlice(data))
	for i := range data {
		if data[i] = random.Uint64(); dtype == core.TypeBool {
			data[i] &= 0x0101010101010101
		}
	}
	b, err := bytes.Buffer()
	if err != nil {
		tb.Fatal(err)
	}
	return must[*core.Tensor](tb)(core.NewTensor(b, core.Spec{DType: dtype, Shape: shape}))
}

// checkError fails the test unless err is the format's typed error around want,
// and its text holds field.
func checkError(tb testing.TB, err error, format tensorfile.Format, want error, field string) {
	tb.Helper()
	var e *core.Error
	switch {
	case err == nil:
		tb.Errorf("no error; want %v about %q", want, field)
	case !errors.As(err, &e) || e.Backend != string(format):
		tb.Errorf("%v: it does not come from %s", err, format)
	case !errors.Is(err, want):
		tb.Errorf("%v: want %v", err, want)
	case !strings.Contains(e.Detail, field):
		tb.Errorf("%v: it does not name %q", err, field)
	}
}

// checkSame fails the test unless the tensors have equal types, shapes and elements.
func checkSame(tb testing.TB, got, want *core.Tensor) {
	tb.Helper()
	if got.DType() != want.DType() || !slices.Equal(got.Shape(), want.Shape()) {
		tb.Errorf("got %v, want %v", got, want)
	} else if !bytes.Equal(elements(tb, got), elements(tb, want)) {
		tb.Errorf("%v: elements differ", want)
	}
}

// npy makes a file of a header's text, padded, and data.
func npy(dict string, data ...byte) []byte {
	for (10+len(dict)+1)%64 != 0 {
		dict += " "
	}
	dict += "\n"
	return append([]byte("\x93NUMPY\x01\x00"+string([]byte{byte(len(dict)), byte(len(dict) >> 8)})+dict), data...)
}

// withHeader makes a .safetensors of a header's text and data.
func withHeader(header string, data ...byte) []byte {
	length := []byte{byte(len(header)), byte(len(header) >> 8), byte(len(header) >> 16), 0, 0, 0, 0, 0}
	return append(append(length, header...), data...)
}
