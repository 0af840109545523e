package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

func TestConvertKeepsTheElementsInEveryFormat(t *testing.T) {
	for _, in := range []string{digits, "../../testdata/digits_fortran.npy", archive, "../../testdata/digits_compressed.npz"} {
		for _, extension := range []string{".npy", ".npz", ".safetensors"} {
			if extension == ".npy" && filepath.Ext(in) != ".npy" {
				continue
			}
			t.Run(filepath.Base(in)+" to "+extension, func(t *testing.T) {
				out := filepath.Join(t.TempDir(), "x"+extension)
				r := decode[convertResult](t, dlx(t, "convert", in, out, "--json"), "convert")
				if r.File != in || r.Out != out || "."+string(r.Format) != extension || len(r.Tensors) == 0 {
					t.Errorf("%+v", r)
				}
				sameTensors(t, in, out)
				listed := decode[inspectResult](t, dlx(t, "inspect", out, "--json"), "inspect").Tensors
				for i, x := range listed {
					j := slices.IndexFunc(r.Tensors, func(y convertedResult) bool { return y.Name == x.Name || extension == ".npy" })
					if y := r.Tensors[max(j, 0)]; j < 0 || x.Order != y.Order || x.DType != y.DType || x.Bytes != y.Bytes || !slices.Equal(x.Shape, y.Shape) {
						t.Errorf("tensor %d of the file is %+v, the result says %+v", i, x, y)
					}
				}
			})
		}
	}
}

func TestConvertToAnotherElementType(t *testing.T) {
	folder := t.TempDir()
	for _, c := range []struct {
		in, dtype, out string
		args           []string
	}{
		{digits, "float32", "a.npy", nil},
		{digits, "int16", "b.npz", nil},
		{"../../testdata/digits_fortran.npy", "float64", "c.npy", nil},
		{"../../testdata/digits_fortran.npy", "float16", "d.npy", []string{"--contiguous"}},
		{"../../testdata/digits_fortran.npy", "bfloat16", "e.safetensors", nil},
		{archive, "int32", "f.safetensors", []string{"--tensor", "target"}},
	} {
		t.Run(c.in+" "+c.dtype, func(t *testing.T) {
			out := filepath.Join(folder, c.out)
			o := dlx(t, append([]string{"convert", c.in, out, "--dtype", c.dtype}, c.args...)...)
			if o.code != exitOK || !strings.Contains(o.stdout, c.dtype) {
				t.Fatalf("%+v", o)
			}
			want, got := floats(t, c.in, "target"), floats(t, out, "target")
			if len(want) == 0 || len(want) != len(got) {
				t.Fatalf("%d elements became %d", len(want), len(got))
			}
			for i := range want {
				if diff := math.Abs(want[i] - got[i]); diff > math.Abs(want[i])/128 || c.dtype[0] == 'i' && got[i] != math.Trunc(want[i]) {
					t.Fatalf("element %d: %v became %v", i, want[i], got[i])
				}
			}
		})
	}
}

// floats reads the tensor of a file, by name if there are several, as float64 in
// row-major order.
func floats(t *testing.T, path, name string) []float64 {
	t.Helper()
	f, err := tensorfile.Open(path, tensorfile.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if all := f.Tensors(); len(all) == 1 {
		name = all[0].Name
	}
	x, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	to := make([]float64, x.NumElements())
	wide, err := core.FromSlice(to, x.Shape()...)
	if err != nil {
		t.Fatal(err)
	}
	defer wide.Close()
	if x.DType() == core.TypeFloat64 {
		all, err := core.All[float64](x)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Collect(all)
	}
	if err := core.Convert(t.Context(), wide, x); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestConvertContiguousMakesRowMajorOrder(t *testing.T) {
	in := "../../testdata/digits_fortran.npy"
	for _, c := range []struct {
		args  []string
		order string
	}{
		{nil, "column-major"},
		{[]string{"--contiguous"}, "row-major"},
		{[]string{"--dtype", "float64"}, "column-major"},
		{[]string{"--dtype", "float64", "--contiguous"}, "row-major"},
	} {
		out := filepath.Join(t.TempDir(), "x.npy")
		r := decode[convertResult](t, dlx(t, append([]string{"convert", in, out, "--json"}, c.args...)...), "convert")
		listed := decode[inspectResult](t, dlx(t, "inspect", out, "--json"), "inspect").Tensors[0]
		if r.Tensors[0].Order != c.order || listed.Order != c.order || !slices.Equal(floats(t, in, ""), floats(t, out, "")) {
			t.Errorf("%q: order %s, in the file %s, or other elements", c.args, r.Tensors[0].Order, listed.Order)
		}
	}
}

func TestConvertReadsStandardInputAndReplacesItsInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	content, err := os.Open(digits)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if o := dlxReading(t, t.Context(), content, []core.Backend{cpu.New()}, "convert", "-", path); o.code != exitOK {
		t.Fatalf("%+v", o)
	}
	sameTensors(t, digits, path)
	if o := dlx(t, "convert", path, path, "--dtype", "float32"); o.code != exitOK {
		t.Fatalf("%+v", o)
	}
	if r := decode[inspectResult](t, dlx(t, "inspect", path, "--json"), "inspect"); r.Tensors[0].DType != core.TypeFloat32 {
		t.Errorf("%+v", r)
	}
}

func TestAConversionThatIsNotThereWritesNothing(t *testing.T) {
	x, err := core.FromSlice([]complex64{1, 2i})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	in, folder := filepath.Join(t.TempDir(), "z.npy"), t.TempDir()
	if err := tensorfile.WriteFile(t.Context(), in, []tensorfile.Named{{Name: "z", Tensor: x}}, tensorfile.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	o := dlx(t, "convert", in, filepath.Join(folder, "x.npy"), "--dtype", "float32")
	if o.code != exitFailed || o.stdout != "" || !strings.Contains(o.stderr, `tensor \"z\"`) {
		t.Errorf("%+v", o)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestConvertWritesMetadata(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.safetensors")
	metadata := func(in string, flags ...string) map[string]string {
		t.Helper()
		decode[convertResult](t, dlx(t, append([]string{"convert", in, out, "--json"}, flags...)...), "convert")
		return decode[inspectResult](t, dlx(t, "inspect", out, "--json"), "inspect").Metadata
	}
	before := metadata(tensors)
	if got := metadata(tensors, "--metadata", "format=pt", "--metadata", "source=a=b, \u00fc", "--metadata", "empty="); len(got) != len(before)+2 || got["format"] != "pt" || got["source"] != "a=b, \u00fc" {
		t.Errorf("%q became %q", before, got)
	}
	if got := metadata(digits, "--metadata", "format=np"); len(got) != 1 || got["format"] != "np" {
		t.Errorf("%q", got)
	}
	if got := metadata(digits); got != nil {
		t.Errorf("%q", got)
	}
	for _, c := range []struct {
		out   string
		flags []string
		text  string
	}{
		{out, []string{"--metadata", "format"}, "must be KEY=VALUE"},
		{out, []string{"--metadata", "=pt"}, "must be KEY=VALUE"},
		{out, []string{"--metadata", "a=\xff"}, "must be UTF-8"},
		{out, []string{"--metadata", "a=1", "--metadata", "a=2"}, "was given before"},
		{"x.npy", []string{"--metadata", "a=1"}, ".npy files have no metadata"},
		{"x.npz", []string{"--metadata", "a=1"}, ".npz files have no metadata"},
	} {
		if o := dlx(t, append([]string{"convert", digits, c.out}, c.flags...)...); o.code != exitUsage || !strings.Contains(o.stderr, c.text) {
			t.Errorf("%s, %q: %+v", c.out, c.flags, o)
		}
	}
}

// The numbers that the help text names become what it says.
func TestConvertToIntegersAsTheHelpSays(t *testing.T) {
	help := strings.Join(strings.Fields(dlx(t, "convert", "--help").stdout), " ")
	for _, want := range []string{"such as 127 in int8 for 300 and for infinity, and NaN becomes 0", "such as 300 to 44 in int8"} {
		if !strings.Contains(help, want) {
			t.Errorf("the help lacks %q: %s", want, help)
		}
	}
	folder := t.TempDir()
	in, whole, out := filepath.Join(folder, "x.npy"), filepath.Join(folder, "i.npy"), filepath.Join(folder, "y.npy")
	x, err := core.FromSlice([]float64{300, math.Inf(1), -300, math.NaN(), -1.9})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y, err := core.FromSlice([]int32{300})
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	for path, x := range map[string]*core.Tensor{in: x, whole: y} {
		if err := tensorfile.WriteFile(t.Context(), path, []tensorfile.Named{{Name: "x", Tensor: x}}, tensorfile.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string][]float64{in: {127, 127, -128, 0, -1}, whole: {44}} {
		decode[convertResult](t, dlx(t, "convert", path, out, "--dtype", "int8", "--json"), "convert")
		if got := floats(t, out, ""); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
