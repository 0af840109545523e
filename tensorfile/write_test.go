package tensorfile_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/tensorfile"
)

// numpyTypes are those that all three formats have.
var numpyTypes = []core.DType{
	core.TypeBool, core.TypeInt8, core.TypeInt16, core.TypeInt32, core.TypeInt64,
	core.TypeUint8, core.TypeUint16, core.TypeUint32, core.TypeUint64,
	core.TypeFloat16, core.TypeFloat32, core.TypeFloat64, core.TypeComplex64,
}

// moreTypes are those that only safetensors has.
var moreTypes = []core.DType{
	core.TypeBFloat16, core.TypeFloat8E4M3FN, core.TypeFloat8E5M2, core.TypeFloat4E2M1FN,
	{Code: typecode.Float8E8M0FNU, Bits: 8, Lanes: 1}, {Code: typecode.Float8E4M3FNUZ, Bits: 8, Lanes: 1},
	{Code: typecode.Float8E5M2FNUZ, Bits: 8, Lanes: 1},
	{Code: typecode.Float6E2M3FN, Bits: 6, Lanes: 1}, {Code: typecode.Float6E3M2FN, Bits: 6, Lanes: 1},
}

// layouts returns views of every kind of layout. Of packed elements there are only row-major ones.
func layouts(tb testing.TB, dtype core.DType) []tensorfile.Named {
	tb.Helper()
	named := []tensorfile.Named{{Name: "row", Tensor: filled(tb, dtype, 2, 3, 4)}, {Name: "none", Tensor: filled(tb, dtype, 3, 0, 2)}}
	if dtype.SubByte() {
		return named
	}
	add := func(name string, t *core.Tensor, err error) *core.Tensor {
		tb.Helper()
		named = append(named, tensorfile.Named{Name: name, Tensor: must[*core.Tensor](tb)(t, err)})
		return t
	}
	box := named[0].Tensor
	add("scalar", filled(tb, dtype), nil)
	column, err := box.Transpose()
	add("column", column, err)
	mixed, err := box.Permute(1, 0, 2)
	add("mixed", mixed, err)
	inner, err := box.Slice(2, 1, 3, 1)
	add("inner", inner, err)
	mirrored, err := box.Slice(2, 3, -1, -2)
	mirrored = add("mirrored", mirrored, err)
	mirrored, err = mirrored.Slice(0, 1, -1, -1)
	add("mirrored twice", mirrored, err)
	repeated, err := filled(tb, dtype, 3, 1).Broadcast(2, 3, 5)
	add("repeated", repeated, err)
	return named
}

// everything returns tensors of all types that a format has, in all layouts.
func everything(tb testing.TB, format tensorfile.Format) []tensorfile.Named {
	tb.Helper()
	types := append(slices.Clone(numpyTypes), core.TypeComplex128)
	if format == tensorfile.Safetensors {
		types = append(slices.Clone(numpyTypes), moreTypes...)
	}
	var all []tensorfile.Named
	for _, dtype := range types {
		for _, n := range layouts(tb, dtype) {
			all = append(all, tensorfile.Named{Name: dtype.String() + " " + n.Name, Tensor: n.Tensor})
		}
	}
	return all
}

// written returns what Write writes, by default without options.
func written(tb testing.TB, format tensorfile.Format, tensors []tensorfile.Named, options ...tensorfile.WriteOptions) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := tensorfile.Write(context.Background(), &b, format, tensors, append(options, tensorfile.WriteOptions{})[0]); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestWhatIsWrittenIsReadEqual(t *testing.T) {
	check := func(t *testing.T, data []byte, name string, want []tensorfile.Named) {
		f := must[*tensorfile.File](t)(tensorfile.Parse(data, name, tensorfile.OpenOptions{}))
		if n := len(f.Tensors()); n != len(want) {
			t.Errorf("%d tensors, want %d", n, len(want))
		}
		for _, n := range want {
			checkSame(t, must[*core.Tensor](t)(f.Tensor(n.Name)), n.Tensor)
		}
	}
	t.Run("npy", func(t *testing.T) {
		for _, n := range everything(t, tensorfile.NPY) {
			check(t, written(t, tensorfile.NPY, []tensorfile.Named{n}), n.Name+".npy", []tensorfile.Named{n})
		}
	})
	t.Run("npz", func(t *testing.T) {
		all := everything(t, tensorfile.NPZ)
		check(t, written(t, tensorfile.NPZ, all), "x.npz", all)
		check(t, written(t, tensorfile.NPZ, nil), "x.npz", nil)
	})
	t.Run("npz compressed", func(t *testing.T) {
		all := everything(t, tensorfile.NPZ)
		check(t, written(t, tensorfile.NPZ, all, tensorfile.WriteOptions{Compress: true}), "x.npz", all)
	})
	t.Run("safetensors", func(t *testing.T) {
		all := everything(t, tensorfile.Safetensors)
		check(t, written(t, tensorfile.Safetensors, all), "x.safetensors", all)
		check(t, written(t, tensorfile.Safetensors, nil), "x.safetensors", nil)
	})
}

// TestRealFilesAreWrittenAsTheirLibrariesDo compares byte by byte. An archive differs: ours is aligned.
func TestRealFilesAreWrittenAsTheirLibrariesDo(t *testing.T) {
	for _, name := range []string{"digits.npy", "digits_target.npy", "digits_fortran.npy", "digits.safetensors"} {
		f := must[*tensorfile.File](t)(tensorfile.Open(realPath(name), tensorfile.OpenOptions{}))
		var tensors []tensorfile.Named
		for _, info := range f.Tensors() {
			tensors = append(tensors, tensorfile.Named{Name: info.Name, Tensor: must[*core.Tensor](t)(f.Tensor(info.Name))})
		}
		slices.Reverse(tensors) // their order must not matter
		if !bytes.Equal(written(t, f.Format(), tensors, tensorfile.WriteOptions{Metadata: f.Metadata()}), realData(t, name)) {
			t.Errorf("%s is written differently", name)
		}
	}
}

func TestNPYKeepsColumnMajorOrder(t *testing.T) {
	for _, n := range layouts(t, core.TypeFloat32) {
		f := must[*tensorfile.File](t)(tensorfile.Parse(written(t, tensorfile.NPY, []tensorfile.Named{n}), "x.npy", tensorfile.OpenOptions{}))
		l := must[*core.Tensor](t)(f.Tensor("x")).Layout()
		if n.Name == "column" {
			if !l.Equal(n.Tensor.Layout()) {
				t.Errorf("%s: strides %v, want %v", n.Name, l.Strides(), n.Tensor.Layout().Strides())
			}
		} else if !l.IsContiguous() {
			t.Errorf("%s: strides %v, want row-major", n.Name, l.Strides())
		}
	}
}

func TestWrittenElementsAreAlignedInTheFile(t *testing.T) {
	for _, test := range []struct {
		format    tensorfile.Format
		alignment int64
	}{{tensorfile.NPZ, 64}, {tensorfile.Safetensors, 0}} {
		f := must[*tensorfile.File](t)(tensorfile.Parse(written(t, test.format, everything(t, test.format)), "x", tensorfile.OpenOptions{}))
		for _, info := range f.Tensors() {
			alignment := test.alignment
			if size, whole := info.DType.ItemSize(); alignment == 0 && whole {
				alignment = size
			}
			if alignment > 0 && info.Bytes > 0 && info.Offset%alignment != 0 {
				t.Errorf("%s: %s lies at byte %d, no multiple of %d", test.format, info.Name, info.Offset, alignment)
			}
		}
	}
}

func TestSafetensorsMetadataIsWritten(t *testing.T) {
	want := map[string]string{"": "", "key": "line\nbreak", "<&>": "ü \" \\ \u2028 \uFFFD"}
	f := must[*tensorfile.File](t)(tensorfile.Parse(written(t, tensorfile.Safetensors, nil, tensorfile.WriteOptions{Metadata: want}), "x.safetensors", tensorfile.OpenOptions{}))
	if got := f.Metadata(); !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLongPiecesAreNotCopied(t *testing.T) {
	const rows, row = 4, 4 << 20
	x := must[*core.Tensor](t)(core.FromSlice(make([]byte, rows*row), rows, row))
	half := must[*core.Tensor](t)(x.Slice(1, 0, row/2, 1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := tensorfile.Write(context.Background(), io.Discard, tensorfile.NPY, []tensorfile.Named{{Name: "x", Tensor: half}}, tensorfile.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > row/4 {
		t.Errorf("%d bytes were allocated to write rows of %d", n, row/2)
	}
}

// failing fails after some bytes.
type failing struct{ left int }

var errFull = errors.New("no space left")

func (w *failing) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriteFailsWhereTheWriterFails(t *testing.T) {
	for _, format := range []tensorfile.Format{tensorfile.NPY, tensorfile.NPZ, tensorfile.Safetensors} {
		for _, n := range layouts(t, core.TypeInt32) {
			tensors := []tensorfile.Named{n}
			whole := len(written(t, format, tensors))
			for left := range whole {
				err := tensorfile.Write(context.Background(), &failing{left}, format, tensors, tensorfile.WriteOptions{})
				if !errors.Is(err, errFull) || !errors.Is(err, core.ErrInvalid) {
					t.Fatalf("%s, %s: room for %d bytes of %d: %v", format, n.Name, left, whole, err)
				}
			}
			if err := tensorfile.Write(context.Background(), &failing{whole}, format, tensors, tensorfile.WriteOptions{}); err != nil {
				t.Errorf("%s, %s: room for all: %v", format, n.Name, err)
			}
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	one := func(name string, x *core.Tensor) []tensorfile.Named {
		return []tensorfile.Named{{Name: name, Tensor: x}}
	}
	good := filled(t, core.TypeInt32, 4)
	packed := filled(t, core.TypeFloat4E2M1FN, 4, 4)
	column, err := packed.Transpose()
	strided := must[*core.Tensor](t)(column, err)
	b, err := packed.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	padded := must[*core.Tensor](t)(core.NewTensor(b, core.Spec{DType: core.TypeFloat4E2M1FN, Shape: []int64{8}, Flags: core.FlagSubBytePadded}))
	foreign := must[*core.Tensor](t)(core.Wrap(core.Memory{ID: core.DeviceID{Type: core.DeviceCUDA}, Handle: 4096, Size: 16}, core.Spec{DType: core.TypeInt32, Shape: []int64{4}}))
	closed := filled(t, core.TypeInt32, 4)
	_ = closed.Close()
	tests := []struct {
		rule    string
		format  tensorfile.Format
		tensors []tensorfile.Named
		opts    tensorfile.WriteOptions
		want    error
		field   string
	}{
		{"no tensor for npy", tensorfile.NPY, nil, tensorfile.WriteOptions{}, core.ErrInvalid, "exactly one"},
		{"two tensors for npy", tensorfile.NPY, append(one("a", good), one("b", good)...), tensorfile.WriteOptions{}, core.ErrInvalid, "exactly one"},
		{"nil tensor", tensorfile.NPZ, one("x", nil), tensorfile.WriteOptions{}, core.ErrInvalid, `tensor "x"`},
		{"closed tensor", tensorfile.NPZ, one("x", closed), tensorfile.WriteOptions{}, core.ErrClosed, `tensor "x"`},
		{"tensor on a device", tensorfile.NPZ, one("x", foreign), tensorfile.WriteOptions{}, core.ErrDevice, `tensor "x"`},
		{"name twice", tensorfile.NPZ, append(one("x", good), one("x", good)...), tensorfile.WriteOptions{}, core.ErrInvalid, `tensor "x"`},
		{"name is not UTF-8", tensorfile.Safetensors, one("\xff", good), tensorfile.WriteOptions{}, core.ErrInvalid, "UTF-8"},
		{"name too long for an archive", tensorfile.NPZ, one(strings.Repeat("x", 1<<16-4), good), tensorfile.WriteOptions{}, core.ErrInvalid, "name has 65532 bytes"},
		{"name of the metadata", tensorfile.Safetensors, one("__metadata__", good), tensorfile.WriteOptions{}, core.ErrInvalid, "__metadata__"},
		{"type that NumPy has not", tensorfile.NPY, one("x", filled(t, core.TypeBFloat16, 4)), tensorfile.WriteOptions{}, core.ErrNotSupported, "bfloat16"},
		{"packed elements for npy", tensorfile.NPY, one("x", packed), tensorfile.WriteOptions{}, core.ErrNotSupported, "float4_e2m1fn"},
		{"type that safetensors has not", tensorfile.Safetensors, one("x", filled(t, core.TypeComplex128, 4)), tensorfile.WriteOptions{}, core.ErrNotSupported, "complex128"},
		{"lanes", tensorfile.Safetensors, one("x", filled(t, core.DType{Code: typecode.Float, Bits: 32, Lanes: 4}, 2)), tensorfile.WriteOptions{}, core.ErrNotSupported, "float32x4"},
		{"strided packed elements", tensorfile.Safetensors, one("x", strided), tensorfile.WriteOptions{}, core.ErrNotSupported, "strides"},
		{"padded elements", tensorfile.Safetensors, one("x", padded), tensorfile.WriteOptions{}, core.ErrNotSupported, "pack them first"},
		{"packed elements that end inside a byte", tensorfile.Safetensors, one("x", filled(t, core.TypeFloat4E2M1FN, 3)), tensorfile.WriteOptions{}, core.ErrLayout, "last byte"},
		{"compression of npy", tensorfile.NPY, one("x", good), tensorfile.WriteOptions{Compress: true}, core.ErrNotSupported, "compression"},
		{"metadata of npz", tensorfile.NPZ, nil, tensorfile.WriteOptions{Metadata: map[string]string{}}, core.ErrNotSupported, "metadata"},
		{"metadata that is not UTF-8", tensorfile.Safetensors, nil, tensorfile.WriteOptions{Metadata: map[string]string{"k": "\xff"}}, core.ErrInvalid, "metadata"},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			err := tensorfile.Write(context.Background(), io.Discard, test.format, test.tensors, test.opts)
			checkError(t, err, test.format, test.want, test.field)
		})
	}
	err = tensorfile.Write(context.Background(), io.Discard, tensorfile.NPZ, one("x", filled(t, core.TypeBFloat16, 4)), tensorfile.WriteOptions{})
	if want := `tensor "x": NumPy has no`; err == nil || strings.Count(err.Error(), `tensor "x"`) != 1 {
		t.Errorf("%v: want one %q", err, want)
	}
	if err := tensorfile.Write(context.Background(), io.Discard, "hdf5", nil, tensorfile.WriteOptions{}); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("unknown format: %v", err)
	}
}

// writing is the event of a write that ends with err once done is closed.
type writing struct {
	done chan struct{}
	err  error
}

func (w writing) Done() (bool, error) {
	select {
	case <-w.done:
		return true, w.err
	default:
		return false, nil
	}
}

func (w writing) Wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestWriteWaitsForTheLastWriteToATensor(t *testing.T) {
	values := []int32{1, 2, 3}
	x := must[*core.Tensor](t)(core.FromSlice(values))
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	tensors := []tensorfile.Named{{Name: "x", Tensor: x}}

	work := writing{done: make(chan struct{})}
	b.Wrote(work)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := tensorfile.Write(ended, io.Discard, tensorfile.NPY, tensors, tensorfile.WriteOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	go func() {
		values[2] = 30
		close(work.done)
	}()
	if data := written(t, tensorfile.NPY, tensors); data[len(data)-4] != 30 {
		t.Error("the last write is not in the file")
	}

	lost := writing{done: make(chan struct{}), err: core.ErrDeviceLost}
	close(lost.done)
	b.Wrote(lost)
	if err := tensorfile.Write(context.Background(), io.Discard, tensorfile.NPY, tensors, tensorfile.WriteOptions{}); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("after a write that failed: %v", err)
	}
}

func TestWriteFileIsWholeOrNothing(t *testing.T) {
	ctx := context.Background()
	folder := t.TempDir()
	path := filepath.Join(folder, "x.npy")
	write := func(dtype core.DType) error {
		return tensorfile.WriteFile(ctx, path, []tensorfile.Named{{Name: "ignored", Tensor: filled(t, dtype, 4)}}, tensorfile.WriteOptions{})
	}
	only := func(names ...string) {
		t.Helper()
		var found []string
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			found = append(found, e.Name())
		}
		if !slices.Equal(found, names) {
			t.Errorf("the folder holds %q, want %q", found, names)
		}
	}

	if err := write(core.TypeBFloat16); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("a type that the format has not: %v", err)
	}
	only()
	if err := write(core.TypeInt8); err != nil {
		t.Fatal(err)
	}
	only("x.npy")

	f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
	old := must[*core.Tensor](t)(f.Tensor("x"))
	before := elements(t, old)
	if err := write(core.TypeBFloat16); err == nil {
		t.Error("no error")
	}
	if err := write(core.TypeInt64); err != nil {
		t.Fatal(err)
	}
	only("x.npy")
	if !bytes.Equal(elements(t, old), before) {
		t.Error("whoever has the old file open sees the new one")
	}
	replaced := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
	if got := replaced.Tensors()[0].DType; got != core.TypeInt64 {
		t.Errorf("the file holds %v", got)
	}

	if err := os.Mkdir(filepath.Join(folder, "taken.npz"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := tensorfile.WriteFile(ctx, filepath.Join(folder, "taken.npz"), nil, tensorfile.WriteOptions{})
	checkError(t, err, tensorfile.NPZ, core.ErrInvalid, "not written")
	only("taken.npz", "x.npy")
	err = tensorfile.WriteFile(ctx, filepath.Join(folder, "missing", "x.npz"), nil, tensorfile.WriteOptions{})
	checkError(t, err, tensorfile.NPZ, core.ErrInvalid, "not written")
	if err := tensorfile.WriteFile(ctx, filepath.Join(folder, "x.bin"), nil, tensorfile.WriteOptions{}); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("unknown extension: %v", err)
	}
}
