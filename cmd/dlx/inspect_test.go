package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

func TestInspectListsTheTensorsOfRealFiles(t *testing.T) {
	for _, c := range []struct {
		file, name, dtype, order string
		shape, strides           []int64
		bytes                    int64
		compressed, inPlace      bool
	}{
		{"digits.npy", "digits", "float64", "row-major", []int64{1797, 8, 8}, []int64{64, 8, 1}, 920064, false, true},
		{"digits_fortran.npy", "digits_fortran", "float32", "column-major", []int64{10, 8, 8}, []int64{1, 10, 80}, 2560, false, true},
		{"digits.npz", "first", "uint8", "row-major", []int64{16, 8, 8}, []int64{64, 8, 1}, 1024, false, true},
		{"digits.npz", "target", "int64", "row-major", []int64{1797}, []int64{1}, 14376, false, false},
		{"digits_compressed.npz", "mean", "float32", "row-major", []int64{10, 8, 8}, []int64{64, 8, 1}, 2560, true, false},
		{"digits.safetensors", "mean_bfloat", "bfloat16", "row-major", []int64{10, 8, 8}, []int64{64, 8, 1}, 1280, false, true},
		{"digits.safetensors", "none", "float32", "row-major", []int64{0, 8, 8}, []int64{64, 8, 1}, 0, false, true},
		{"digits.safetensors", "total", "float64", "row-major", []int64{}, []int64{}, 8, false, true},
	} {
		t.Run(c.file+" "+c.name, func(t *testing.T) {
			path := "../../testdata/" + c.file
			r := decode[inspectResult](t, dlx(t, "inspect", path, "--json"), "inspect")
			stat, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if r.File != path || r.Bytes != stat.Size() || "."+string(r.Format) != filepath.Ext(path) {
				t.Errorf("file %q of %d bytes, format %q", r.File, r.Bytes, r.Format)
			}
			i := slices.IndexFunc(r.Tensors, func(x tensorResult) bool { return x.Name == c.name })
			if i < 0 {
				t.Fatalf("no tensor %q in %+v", c.name, r.Tensors)
			}
			got := r.Tensors[i]
			if got.DType.String() != c.dtype || got.Order != c.order || got.Bytes != c.bytes || got.Compressed != c.compressed || got.InPlace != c.inPlace {
				t.Errorf("%+v", got)
			}
			// nil would be null in JSON, which is no list.
			if got.Shape == nil || got.Strides == nil || !slices.Equal(got.Shape, c.shape) || !slices.Equal(got.Strides, c.strides) {
				t.Errorf("shape %#v, strides %#v", got.Shape, got.Strides)
			}
		})
	}
}

func TestInspectShowsTheMetadataOfSafetensors(t *testing.T) {
	r := decode[inspectResult](t, dlx(t, "inspect", tensors, "--json"), "inspect")
	if r.Metadata["source"] != "scikit-learn digits" {
		t.Errorf("metadata %v", r.Metadata)
	}
	if text := dlx(t, "inspect", tensors).stdout; !strings.Contains(text, "source = scikit-learn digits\n") {
		t.Errorf("no metadata in\n%s", text)
	}
}

func TestInspectPrintsNoControlCharactersOfAFile(t *testing.T) {
	header := `{"__metadata__":{"k":"\u001b[2J"},"a\u001b]0;b\tc\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(path, []byte(string([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0})+header+"\x01"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"inspect", path}, {"move", path, "--via", "cpu"}} {
		o := dlx(t, args...)
		if o.code != exitOK || strings.ContainsRune(o.stdout, '\x1b') || !strings.Contains(o.stdout, `"a\x1b]0;b\tc\n"`) {
			t.Errorf("%s: exit code %d, %q, %s", args[0], o.code, o.stdout, o.stderr)
		}
	}
}

func TestInspectListsSeveralFiles(t *testing.T) {
	type file struct {
		inspectResult
		Error *errorResult `json:"error"`
	}
	type list struct {
		Files []file `json:"files"`
	}
	r := decode[list](t, dlx(t, "inspect", digits, tensors, "--json"), "inspect")
	if len(r.Files) != 2 || r.Files[0].File != digits || len(r.Files[0].Tensors) != 1 || r.Files[1].Format != "safetensors" || len(r.Files[1].Metadata) == 0 {
		t.Errorf("%+v", r)
	}
	one, other := dlx(t, "inspect", digits).stdout, dlx(t, "inspect", tensors).stdout
	if both := dlx(t, "inspect", digits, tensors).stdout; both != one+"\n"+other {
		t.Errorf("got\n%s\nwant\n%s\n%s", both, one, other)
	}

	text := filepath.Join(t.TempDir(), "text.npy")
	if err := os.WriteFile(text, []byte("not an array"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := dlx(t, "inspect", "nosuch.npy", text, digits, "--json")
	r = decode[list](t, o, "inspect")
	if o.code != exitFailed || len(r.Files) != 3 || r.Files[2].Error != nil || len(r.Files[2].Tensors) != 1 {
		t.Errorf("exit code %d, %+v", o.code, r)
	}
	if e := r.Files[0].Error; e == nil || e.Call != "stat" || r.Files[0].File != "nosuch.npy" || r.Files[0].Tensors != nil {
		t.Errorf("a file that is not there: %+v", r.Files[0])
	}
	if e := r.Files[1].Error; e == nil || e.Backend != "npy" || strings.Count(o.stderr, text) != 1 {
		t.Errorf("a file that is no array: %+v; %s", e, o.stderr)
	}
	if shown := dlx(t, "inspect", "nosuch.npy", digits).stdout; !strings.HasPrefix(shown, "nosuch.npy: not listed: ") || !strings.HasSuffix(shown, one) {
		t.Errorf("text:\n%s", shown)
	}
}

// Commands that read files take an index and a folder.
func TestAnIndexAndAFolderAreReadAsOneFile(t *testing.T) {
	folder := t.TempDir()
	var bytes int64
	for name, file := range map[string]string{"a": "m-1.safetensors", "b": "m-2.safetensors"} {
		x, err := core.FromSlice([]float32{1, 2, float32(len(file))})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		path := filepath.Join(folder, file)
		if err := tensorfile.WriteFile(t.Context(), path, []tensorfile.Named{{Name: name, Tensor: x}}, tensorfile.WriteOptions{Metadata: map[string]string{"format": "pt"}}); err != nil {
			t.Fatal(err)
		}
		stat, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		bytes += stat.Size()
	}
	index := filepath.Join(folder, "m.safetensors.index.json")
	if err := os.WriteFile(index, []byte(`{"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{index, folder} {
		r := decode[inspectResult](t, dlx(t, "inspect", path, "--json"), "inspect")
		if len(r.Tensors) != 2 || r.Tensors[1].Name != "b" || r.Tensors[1].File != filepath.Join(folder, "m-2.safetensors") || r.Bytes != bytes || r.Metadata["format"] != "pt" {
			t.Errorf("%+v", r)
		}
		if o := dlx(t, "inspect", path); !strings.Contains(o.stdout, "STORAGE") || !strings.Contains(o.stdout, "in place  "+r.Tensors[0].File+"\n") {
			t.Error(o.stdout)
		}
		out := filepath.Join(t.TempDir(), "x.safetensors")
		decode[convertResult](t, dlx(t, "convert", path, out, "--json"), "convert")
		one := decode[inspectResult](t, dlx(t, "inspect", out, "--json"), "inspect")
		if len(one.Tensors) != 2 || one.Metadata["format"] != "pt" || one.Tensors[0].File != "" || !slices.Equal(floats(t, out, "b"), []float64{1, 2, 15}) {
			t.Errorf("%+v", one)
		}
		moved := decode[moveResult](t, dlx(t, "move", path, "--via", "ext_dev:0", "--verify", "--tensor", "b", "--json"), "move")
		if moved.Verified == nil || !*moved.Verified {
			t.Errorf("%+v", moved)
		}
	}
	if err := os.Remove(filepath.Join(folder, "m-1.safetensors")); err != nil {
		t.Fatal(err)
	}
	if o := dlx(t, "inspect", folder); o.code != exitFailed || !strings.Contains(o.stderr, "m-1.safetensors") || !strings.Contains(o.stderr, "a file that the index") {
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
}

func TestInspectReadsStandardInput(t *testing.T) {
	for path, name := range map[string]string{digits: "stdin", archive: "mean", tensors: "mean_bfloat"} {
		content, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		r := decode[inspectResult](t, dlxReading(t, t.Context(), content, nil, "inspect", "-", "--json"), "inspect")
		stat, err := content.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if r.File != "-" || r.Bytes != stat.Size() || !slices.ContainsFunc(r.Tensors, func(x tensorResult) bool { return x.Name == name }) {
			t.Errorf("%s: %+v", path, r)
		}
	}
	if o := dlx(t, "inspect", "-"); o.code != exitFailed || !strings.Contains(o.stderr, "stdin") { // it is empty
		t.Errorf("%+v", o)
	}
	if o := dlxReading(t, t.Context(), failing{}, nil, "inspect", "-"); o.code != exitFailed || !strings.Contains(o.stderr, "reading standard input: no space left") {
		t.Errorf("%+v", o)
	}
}

// failing is a standard input that cannot be read.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errFull }

func TestAnInterruptEndsTheWaitForStandardInput(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	defer r.Close()
	go func() {
		_, _ = w.Write([]byte("\x93NUMPY")) // it is being read
		cancel()
	}()
	if o := dlxReading(t, ctx, r, nil, "inspect", "-"); o.code != exitFailed || !strings.Contains(o.stderr, "interrupted") {
		t.Errorf("%+v", o)
	}
}

func TestMoveReadsStandardInput(t *testing.T) {
	content, err := os.Open(digits)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	out := filepath.Join(t.TempDir(), "x.npy")
	o := dlxReading(t, t.Context(), content, []core.Backend{cpu.New()}, "move", "-", "--via", "cpu", "--verify", "--out", out, "--json")
	if r := decode[moveResult](t, o, "move"); r.File != "-" || r.Tensors[0].Tensor != "stdin" || !*r.Verified {
		t.Errorf("%+v", r)
	}
	sameTensors(t, digits, out)
}
