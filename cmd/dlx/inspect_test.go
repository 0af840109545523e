package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
	for _, args := range [][]string{{"inspect", path}, {"handoff", path, "--via", "cpu"}} {
		o := dlx(t, args...)
		if o.code != exitOK || strings.ContainsRune(o.stdout, '\x1b') || !strings.Contains(o.stdout, `"a\x1b]0;b\tc\n"`) {
			t.Errorf("%s: exit code %d, %q, %s", args[0], o.code, o.stdout, o.stderr)
		}
	}
}
