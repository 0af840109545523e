package tensorfile_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/tensorfile"
)

// saved returns the .npy file of a tensor with another descr.
func saved(tb testing.TB, x *core.Tensor, descr func(string) string) []byte {
	tb.Helper()
	file := written(tb, tensorfile.NPY, []tensorfile.Named{{Name: "x", Tensor: x}})
	header, data := file[:len(file)-int(x.NumBytes())], file[len(file)-int(x.NumBytes()):]
	begin := bytes.Index(header, []byte("'descr': '")) + len("'descr': '")
	end := begin + bytes.IndexByte(header[begin:], '\'')
	dict := string(header[10:begin]) + descr(string(header[begin:end])) + strings.TrimRight(string(header[end:]), " \n")
	return npy(dict, data...)
}

// swapped returns the .npy file of a tensor in the other byte order.
func swapped(tb testing.TB, x *core.Tensor) []byte {
	tb.Helper()
	file := saved(tb, x, func(native string) string {
		if native[0] == '<' {
			return ">" + native[1:]
		}
		return "<" + native[1:]
	})
	size, _ := x.DType().ItemSize()
	if x.DType().Code == typecode.Complex {
		size /= 2
	}
	for number := range slices.Chunk(file[len(file)-int(x.NumBytes()):], int(size)) {
		slices.Reverse(number)
	}
	return file
}

// Arrays in the other byte order are read by a copy, and the descriptions of the file and of the load say so.
func TestTheOtherByteOrderIsSwapped(t *testing.T) {
	folder := t.TempDir()
	for _, dtype := range []core.DType{
		core.TypeInt16, core.TypeUint16, core.TypeFloat16, core.TypeInt32, core.TypeUint32, core.TypeFloat32,
		core.TypeInt64, core.TypeUint64, core.TypeFloat64, core.TypeComplex64, core.TypeComplex128,
	} {
		x := filled(t, dtype, 3, 5, 4)
		columns := must[*core.Tensor](t)(x.Transpose())
		path := put(t, filepath.Join(folder, dtype.String()+".npy"), swapped(t, x))
		members := []packed{
			{name: "stored.npy", data: swapped(t, x)}, {name: "deflated.npy", data: swapped(t, x), method: 8},
			{name: "columns.npy", data: swapped(t, columns)}, {name: "plain.npy", data: saved(t, x, func(d string) string { return d })},
		}
		archived := put(t, filepath.Join(folder, dtype.String()+".npz"), archive(t, members...))
		f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{Unaligned: true}))
		if info := f.Tensors()[0]; !info.Swapped || info.InPlace || info.DType != dtype {
			t.Errorf("%+v", info)
		}
		checkSame(t, must[*core.Tensor](t)(f.Tensor(dtype.String())), x)
		f = must[*tensorfile.File](t)(tensorfile.Open(archived, tensorfile.OpenOptions{}))
		for i, info := range f.Tensors() {
			want := x
			if info.Name == "columns" {
				want = columns
			}
			if info.Swapped != (i < 3) {
				t.Errorf("%+v", info)
			}
			checkSame(t, must[*core.Tensor](t)(f.Tensor(info.Name)), want)
		}
		for _, to := range targets {
			d := to.open(t)
			for _, mode := range readModes {
				l := load(t, path, d, tensorfile.LoadOptions{Read: mode, Checksum: tensorfile.CRC32C})
				checkEqual(t, onHost(t, d, l.Tensors[dtype.String()]), x)
				if file := l.Report.Files[0]; l.Report.Swapped != 1 || file.Read != tensorfile.ReadMap || !strings.Contains(file.Reason, "byte order") {
					t.Errorf("%s: %+v", to.name, l.Report)
				}
				l = load(t, archived, d, tensorfile.LoadOptions{Read: mode, RowMajor: true, Slices: []tensorfile.Slice{{Axis: 1, Index: 1, Count: 2}}})
				checkEqual(t, onHost(t, d, l.Tensors["stored"]), sliceOf(t, x, 1, 1, 2))
				checkEqual(t, onHost(t, d, l.Tensors["columns"]), sliceOf(t, columns, 1, 1, 2))
				if l.Report.Swapped != 3 {
					t.Errorf("%s: %+v", to.name, l.Report)
				}
			}
		}
	}
}

// A checksum is that of the bytes of the file, and elements are converted after they are swapped.
func TestSwappedElementsAreSummedBeforeAndConvertedAfter(t *testing.T) {
	x := filled(t, core.TypeInt16, 50, 3)
	file := swapped(t, x)
	same := put(t, filepath.Join(t.TempDir(), "x.npy"), npy("{'descr': '|u1', 'fortran_order': False, 'shape': (300,), }", file[len(file)-300:]...))
	path := put(t, filepath.Join(t.TempDir(), "x.npy"), file)
	for _, to := range targets {
		d := to.open(t)
		o := tensorfile.LoadOptions{Checksum: tensorfile.SHA256}
		want := load(t, same, d, o).Report.Checksums["x"]
		o.DType = core.TypeFloat32
		l := load(t, path, d, o)
		if got := l.Report.Checksums["x"]; got != want || want == "" {
			t.Errorf("checksum %s, want %s", got, want)
		}
		checkEqual(t, onHost(t, d, l.Tensors["x"]), must[*core.Tensor](t)(x.AsType(t.Context(), core.TypeFloat32)))
	}
}

// Raw void has the type that the caller names for its size.
func TestRawVoidHasTheTypeThatIsNamed(t *testing.T) {
	half := filled(t, core.TypeFloat16, 6, 2)
	bytes := filled(t, core.TypeInt8, 5)
	named := func(descr string) func(string) string { return func(string) string { return descr } }
	voids := []core.DType{core.TypeBFloat16, core.TypeFloat8E4M3FN, core.TypeFloat16}
	for descr, want := range map[string]core.DType{"<V2": core.TypeBFloat16, "|V2": core.TypeBFloat16, "<V1": core.TypeFloat8E4M3FN, "|V1": core.TypeFloat8E4M3FN, "<f1": core.TypeFloat8E4M3FN} {
		x := half
		if want.Bits == 8 {
			x = bytes
		}
		file := saved(t, x, named(descr))
		_, err := tensorfile.Parse(file, "x.npy", tensorfile.OpenOptions{VoidAs: []core.DType{core.TypeFloat32}})
		checkError(t, err, tensorfile.NPY, core.ErrNotSupported, "name its type")
		f := must[*tensorfile.File](t)(tensorfile.Parse(file, "x.npy", tensorfile.OpenOptions{VoidAs: voids}))
		got := must[*core.Tensor](t)(f.Tensor("x"))
		if got.DType() != want || !slices.Equal(elements(t, got), elements(t, x)) {
			t.Errorf("%s: got %v, want %v", descr, got, want)
		}
		path := put(t, filepath.Join(t.TempDir(), "x.npz"), archive(t, packed{name: "x.npy", data: file}, packed{name: "y.npy", data: file, method: 8}))
		d := openHost(t)
		if l := load(t, path, d, tensorfile.LoadOptions{}); len(l.Tensors) != 0 || len(l.Report.Refused) != 2 {
			t.Errorf("%s without a type: %+v", descr, l.Report)
		}
		l := load(t, path, d, tensorfile.LoadOptions{VoidAs: voids})
		checkEqual(t, l.Tensors["x"], got)
		checkEqual(t, l.Tensors["y"], got)
	}
	f := must[*tensorfile.File](t)(tensorfile.Parse(saved(t, half, named(">V2")), "x.npy", tensorfile.OpenOptions{VoidAs: []core.DType{core.TypeFloat16}}))
	if info := f.Tensors()[0]; !info.Swapped {
		t.Errorf("%+v", info)
	}
	for _, wrong := range []core.DType{{}, core.TypeInt4} {
		_, err := tensorfile.Parse(nil, "x.npy", tensorfile.OpenOptions{VoidAs: []core.DType{wrong}})
		coretest.WantError(t, err, core.ErrInvalid, wrong.String())
		_, err = tensorfile.Load(t.Context(), realPath("digits.npy"), openHost(t), tensorfile.LoadOptions{VoidAs: []core.DType{wrong}})
		coretest.WantError(t, err, core.ErrInvalid, wrong.String())
	}
}
