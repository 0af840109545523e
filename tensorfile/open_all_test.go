package tensorfile_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/tensorfile"
)

func mappings() int64 { return core.Live()["tensorfile.mapping"] }

// waitForNoMapping waits until the collector has unmapped the files that a test lost: this one or an earlier one.
func waitForNoMapping(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); mappings() != 0; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(end) {
			t.Fatalf("%d mappings are left", mappings())
		}
	}
}

// An index, and a folder with or without one, are opened as one file, which has the tensors that Load loads.
func TestOpenTakesAnIndexAndAFolder(t *testing.T) {
	waitForNoMapping(t)
	folder := t.TempDir()
	index := sharded(t, folder, nil)
	for _, path := range []string{index, folder, "without an index"} {
		if path == "without an index" {
			if err := os.Remove(index); err != nil {
				t.Fatal(err)
			}
			path = folder
		}
		checkLoaded(t, path, openHost(t), load(t, path, openHost(t), tensorfile.LoadOptions{Read: tensorfile.ReadDirect}))
		before := mappings()
		f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
		if n := mappings() - before; n != 2 {
			t.Errorf("%d mappings of two files", n)
		}
		infos := f.Tensors()
		if len(infos) != 6 || f.Format() != tensorfile.Safetensors {
			t.Errorf("%v: %+v", f.Format(), infos)
		}
		for _, info := range infos {
			want := filepath.Join(folder, fmt.Sprintf("model-%05d-of-00002.safetensors", info.Name[6]-'0'+1))
			if info.File != want || !info.InPlace {
				t.Errorf("%+v, want the file %s", info, want)
			}
		}
		kept, err := f.Tensor("layer.1.2")
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Tensor("layer.2.0")
		coretest.WantError(t, err, core.ErrInvalid, "a tensor that no file has")
		_ = f.Close()
		_ = f.Close()
		if n := mappings() - before; n != 1 {
			t.Errorf("%d mappings after Close, want that of the tensor", n)
		}
		_, err = f.Tensor("layer.0.0")
		coretest.WantError(t, err, core.ErrClosed, "a closed file")
		checkEqual(t, kept, filled(t, core.TypeFloat32, 103, 7))
		_ = kept.Close()
		if n := mappings() - before; n != 0 {
			t.Errorf("%d mappings after the last tensor was closed", n)
		}
	}
}

// The files of an index that nobody has closed are unmapped with it.
func TestALostIndexUnmapsItsFiles(t *testing.T) {
	if _, err := tensorfile.Open(sharded(t, t.TempDir(), nil), tensorfile.OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForNoMapping(t)
}

// The tensors that an index does not list are left out, and options concern all files.
func TestOpenTakesWhatTheIndexLists(t *testing.T) {
	folder := t.TempDir()
	array := npy("{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }", 1, 2, 3, 4)
	put(t, filepath.Join(folder, "x.npz"), archive(t, packed{name: "x.npy", data: array, method: 8}, packed{name: "y.npy", data: array}))
	index := put(t, filepath.Join(folder, "m.safetensors.index.json"), []byte(`{"weight_map":{"x":"x.npz"}}`))
	f := must[*tensorfile.File](t)(tensorfile.Open(index, tensorfile.OpenOptions{VoidAs: []core.DType{core.TypeBFloat16}}))
	if infos := f.Tensors(); len(infos) != 1 || infos[0].DType != core.TypeBFloat16 || !infos[0].Compressed {
		t.Errorf("%+v", infos)
	}
	must[*core.Tensor](t)(f.Tensor("x"))
	_, err := f.Tensor("y")
	coretest.WantError(t, err, core.ErrInvalid, "a tensor that the index leaves out")
	f = must[*tensorfile.File](t)(tensorfile.Open(index, tensorfile.OpenOptions{VoidAs: []core.DType{core.TypeBFloat16}, InflateLimit: 1}))
	_, err = f.Tensor("x")
	checkError(t, err, tensorfile.NPZ, core.ErrOutOfMemory, filepath.Join(folder, "x.npz"))
}

// The metadata of several files is that on which they agree.
func TestMetadataOfSeveralFiles(t *testing.T) {
	folder := t.TempDir()
	for i, metadata := range []string{`{"format":"pt","part":"1","one":"x"}`, `{"format":"pt","part":"2"}`, `{"part":"1"}`} {
		put(t, filepath.Join(folder, fmt.Sprintf("%d.safetensors", i)), withHeader(`{"__metadata__":`+metadata+`}`))
	}
	got := must[*tensorfile.File](t)(tensorfile.Open(folder, tensorfile.OpenOptions{})).Metadata()
	if len(got) != 2 || got["format"] != "pt" || got["one"] != "x" {
		t.Errorf("%q", got)
	}
}

// The errors name the index and the file, and nothing stays open.
func TestOpenNamesTheIndexAndTheFile(t *testing.T) {
	waitForNoMapping(t)
	for name, c := range map[string]struct {
		more map[string]string
		want error
		text []string
	}{
		"a missing file":   {map[string]string{"x": "none.safetensors"}, fs.ErrNotExist, []string{"a file that the index", "none.safetensors"}},
		"a missing tensor": {map[string]string{"x": "model-00002-of-00002.safetensors"}, core.ErrLayout, []string{`model-00002-of-00002.safetensors has tensor "x"`}},
		"another folder":   {map[string]string{"x": "../x.safetensors"}, core.ErrInvalid, []string{"must lie in the folder of the index"}},
	} {
		folder := t.TempDir()
		index := sharded(t, folder, c.more)
		for _, path := range []string{index, folder} {
			_, err := tensorfile.Open(path, tensorfile.OpenOptions{})
			coretest.WantError(t, err, c.want, name)
			for _, text := range append(c.text, index) {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%s: %v: want %q", name, err, text)
				}
			}
			_, err = tensorfile.Load(t.Context(), path, openHost(t), tensorfile.LoadOptions{})
			coretest.WantError(t, err, c.want, name)
		}
	}
	_, err := tensorfile.Open(t.TempDir(), tensorfile.OpenOptions{})
	coretest.WantError(t, err, core.ErrInvalid, "an empty folder")
	twice := t.TempDir()
	x := filled(t, core.TypeInt8, 1)
	for _, file := range []string{"a.safetensors", "b.safetensors"} {
		if err := tensorfile.WriteFile(t.Context(), filepath.Join(twice, file), []tensorfile.Named{{Name: "x", Tensor: x}}, tensorfile.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = tensorfile.Open(twice, tensorfile.OpenOptions{})
	checkError(t, err, tensorfile.Safetensors, core.ErrLayout, `tensor "x" is in `+filepath.Join(twice, "a.safetensors")+" and in "+filepath.Join(twice, "b.safetensors"))
	if n := mappings(); n != 0 {
		t.Errorf("%d mappings are left", n)
	}
}

// A member of an archive that an index names, and that is no tensor, says why.
func TestAnIndexNamesAMemberThatIsNoTensor(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "x.npz"), archive(t, packed{name: "note.txt", data: []byte("x")}))
	index := put(t, filepath.Join(folder, "x.safetensors.index.json"), []byte(`{"weight_map":{"note.txt":"x.npz"}}`))
	f := must[*tensorfile.File](t)(tensorfile.Open(index, tensorfile.OpenOptions{}))
	if infos := f.Tensors(); len(infos) != 1 || infos[0].Reason == "" || infos[0].File != filepath.Join(folder, "x.npz") || infos[0].Shape != nil {
		t.Errorf("%+v", infos)
	}
	_, err := f.Tensor("note.txt")
	coretest.WantError(t, err, core.ErrNotSupported, "not a tensor")
}
