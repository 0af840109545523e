package tensorfile_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/tensorfile"
)

// sharded writes two files of tensors, and an index that has the given entries besides. It returns the path of the index.
func sharded(tb testing.TB, folder string, more map[string]string) string {
	tb.Helper()
	names := map[string]string{}
	for i := range 2 {
		file := fmt.Sprintf("model-%05d-of-00002.safetensors", i+1)
		var tensors []tensorfile.Named
		for k := range 3 {
			name := fmt.Sprintf("layer.%d.%d", i, k)
			names[name] = file
			tensors = append(tensors, tensorfile.Named{Name: name, Tensor: filled(tb, core.TypeFloat32, int64(100*i+k+1), 7)})
		}
		if err := tensorfile.WriteFile(tb.Context(), filepath.Join(folder, file), tensors, tensorfile.WriteOptions{}); err != nil {
			tb.Fatal(err)
		}
	}
	maps.Copy(names, more)
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"total_size": 1}, "weight_map": names})
	if err != nil {
		tb.Fatal(err)
	}
	return put(tb, filepath.Join(folder, "model.safetensors.index.json"), text)
}

func TestAnIndexLoadsAllItsFiles(t *testing.T) {
	folder := t.TempDir()
	index := sharded(t, folder, nil)
	for _, to := range targets {
		d := to.open(t)
		for _, path := range []string{index, folder} {
			for _, mode := range readModes {
				l := load(t, path, d, tensorfile.LoadOptions{Read: mode})
				want := []string{"layer.0.0", "layer.0.1", "layer.0.2", "layer.1.0", "layer.1.1", "layer.1.2"}
				if got := slices.Sorted(slices.Values(l.Names)); !slices.Equal(got, want) || len(l.Report.Files) != 2 {
					t.Errorf("tensors %q of %d files", got, len(l.Report.Files))
				}
				checkEqual(t, onHost(t, d, l.Tensors["layer.1.2"]), filled(t, core.TypeFloat32, 103, 7))
				l = load(t, path, d, tensorfile.LoadOptions{Read: mode, Only: []string{"*.1.2"}})
				if len(l.Tensors) != 1 || l.Report.Files[0].Tensors != 0 {
					t.Errorf("only one: %v", l.Report)
				}
			}
		}
	}
}

func TestLoadAllTakesSeveralPaths(t *testing.T) {
	folder, other := t.TempDir(), t.TempDir()
	index := sharded(t, folder, nil)
	first := filepath.Join(folder, "model-00001-of-00002.safetensors")
	second := filepath.Join(folder, "model-00002-of-00002.safetensors")
	npy := filepath.Join(other, "x.npy")
	if err := tensorfile.WriteFile(t.Context(), npy, []tensorfile.Named{{Tensor: filled(t, core.TypeFloat32, 9, 4)}}, tensorfile.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, to := range targets {
		d := to.open(t)
		for _, mode := range readModes {
			l, err := tensorfile.LoadAll(t.Context(), []string{npy, second, first}, d, tensorfile.LoadOptions{Read: mode})
			if err != nil {
				t.Fatal(err)
			}
			if len(l.Names) != 7 || l.Names[0] != "x" || l.Names[1][:7] != "layer.1" || len(l.Report.Files) != 3 {
				t.Errorf("tensors %q of %d files", l.Names, len(l.Report.Files))
			}
			checkEqual(t, onHost(t, d, l.Tensors["x"]), filled(t, core.TypeFloat32, 9, 4))
			checkEqual(t, onHost(t, d, l.Tensors["layer.0.2"]), filled(t, core.TypeFloat32, 3, 7))
			checkEqual(t, onHost(t, d, l.Tensors["layer.1.2"]), filled(t, core.TypeFloat32, 103, 7))
			_ = l.Close()
			// A glob that only one of the files matches is used.
			o := tensorfile.LoadOptions{Read: mode, Only: []string{"*.1.2", "x"}}
			if l, err = tensorfile.LoadAll(t.Context(), []string{index, npy}, d, o); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(l.Names, []string{"layer.1.2", "x"}) {
				t.Errorf("only two: %q", l.Names)
			}
			_ = l.Close()
		}
		for name, c := range map[string]struct {
			paths []string
			want  error
		}{
			"no path":                {nil, core.ErrInvalid},
			"a file twice":           {[]string{first, first}, core.ErrLayout},
			"a file and its index":   {[]string{index, second}, core.ErrLayout},
			"a second one not there": {[]string{first, filepath.Join(folder, "none.npy")}, fs.ErrNotExist},
		} {
			if _, err := tensorfile.LoadAll(t.Context(), c.paths, d, tensorfile.LoadOptions{}); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
	}
}

func TestAFolderOfOneFile(t *testing.T) {
	folder, d := t.TempDir(), openHost(t)
	_, err := tensorfile.Load(t.Context(), folder, d, tensorfile.LoadOptions{})
	coretest.WantError(t, err, core.ErrInvalid, "an empty folder")
	mixed(t, folder)
	checkLoaded(t, filepath.Join(folder, "mixed.safetensors"), d, load(t, folder, d, tensorfile.LoadOptions{}))
	sharded(t, folder, nil)
	if l := load(t, folder, d, tensorfile.LoadOptions{}); len(l.Tensors) != 6 {
		t.Errorf("with an index: %q", l.Names)
	}
	if err := os.Remove(filepath.Join(folder, "model.safetensors.index.json")); err != nil {
		t.Fatal(err)
	}
	if l := load(t, folder, d, tensorfile.LoadOptions{}); len(l.Report.Files) != 3 {
		t.Errorf("three files and no index: %v", l.Report)
	}
}

func TestAMalformedIndexIsAnError(t *testing.T) {
	d := openHost(t)
	for name, c := range map[string]struct {
		more map[string]string
		want error
		text string
	}{
		"a missing file":   {map[string]string{"x": "none.safetensors"}, fs.ErrNotExist, "none.safetensors"},
		"a missing tensor": {map[string]string{"x": "model-00001-of-00002.safetensors"}, core.ErrLayout, `has tensor "x"`},
		"another folder":   {map[string]string{"x": "../x.safetensors"}, core.ErrInvalid, "must lie in the folder of the index"},
		"an absolute path": {map[string]string{"x": "/x.safetensors"}, core.ErrInvalid, "must lie in the folder of the index"},
		"no file":          {map[string]string{"x": ""}, core.ErrInvalid, "must lie in the folder of the index"},
	} {
		_, err := tensorfile.Load(t.Context(), sharded(t, t.TempDir(), c.more), d, tensorfile.LoadOptions{})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v about %q", name, err, c.want, c.text)
		}
	}
	for _, text := range []string{"", "[]", "{}", `{"weight_map":{}}`, `{"weight_map":1}`, `{"weight_map":{"a":1}}`, `{"weight_map":{"a":"x","a":"y"}}`, `{"weight_map":{"a":"x"`,
		`{"weight_map":{"a":"x.safetensors"},"weight_map":{"b":"x.safetensors"}}`, `{"weight_map":{"a":"x.safetensors"},"WEIGHT_MAP":{"b":"x.safetensors"}}`,
		`{"Weight_Map":{"a":"x.safetensors"}}`, `{"metadata":{"a":1,"a":2},"weight_map":{"a":"x.safetensors"}}`, `{"weight_map":{"a":"x.safetensors"}} {}`} {
		_, err := tensorfile.Load(t.Context(), put(t, filepath.Join(t.TempDir(), "x.safetensors.index.json"), []byte(text)), d, tensorfile.LoadOptions{})
		coretest.WantError(t, err, core.ErrInvalid, text)
		if errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was taken for an index: %v", text, err)
		}
	}
}

// The error for a file that was cut short has its name, the size that it has and the one that it should have.
func TestAFileThatWasCutShortSaysSo(t *testing.T) {
	d := openHost(t)
	for _, at := range []int{-1, -7*4*103 - 3, 40, 9} { // in the last tensor, in the one before it, in the header
		folder := t.TempDir()
		index := sharded(t, folder, nil)
		path := filepath.Join(folder, "model-00002-of-00002.safetensors")
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("it has %d bytes and should have %d, so it was cut short", len(whole)+at, len(whole))
		if at > 0 {
			want = fmt.Sprintf("it has %d bytes and should have more than %d", at, 8+binary.LittleEndian.Uint64(whole))
		} else {
			at += len(whole)
		}
		put(t, path, whole[:at])
		for _, mode := range readModes {
			_, err = tensorfile.Load(t.Context(), index, d, tensorfile.LoadOptions{Read: mode})
			checkError(t, err, tensorfile.Safetensors, core.ErrLayout, want)
			checkError(t, err, tensorfile.Safetensors, core.ErrLayout, fmt.Sprintf("a file that the index %q names: %q", index, path))
		}
		_, err = tensorfile.Open(path, tensorfile.OpenOptions{})
		checkError(t, err, tensorfile.Safetensors, core.ErrLayout, fmt.Sprintf("%q", path))
		checkError(t, err, tensorfile.Safetensors, core.ErrLayout, want)
	}
}

// An index that leaves out tensors of its files says so in the report.
func TestTensorsThatAnIndexLeavesOut(t *testing.T) {
	folder, d := t.TempDir(), openHost(t)
	sharded(t, folder, nil)
	put(t, filepath.Join(folder, "model.safetensors.index.json"), []byte(`{"weight_map":{"layer.0.1":"model-00001-of-00002.safetensors"}}`))
	l := load(t, folder, d, tensorfile.LoadOptions{})
	if len(l.Tensors) != 1 || len(l.Report.Refused) != 1 {
		t.Errorf("%q, %v", l.Names, l.Report.Refused)
	}
}

// FuzzIndex looks for indexes that make Load panic or fail with another kind of error.
func FuzzIndex(f *testing.F) {
	folder := f.TempDir()
	text, err := os.ReadFile(sharded(f, folder, nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"weight_map":{"layer.0.1":"model-00001-of-00002.safetensors"}}`))
	f.Add([]byte(`{"metadata":{},"weight_map":{"\ud800":"./a"}}`))
	f.Add([]byte(`{"weight_map":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(filepath.Join(folder, "fuzz.safetensors.index.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := tensorfile.Load(t.Context(), filepath.Join(folder, "fuzz.safetensors.index.json"), openHost(t), tensorfile.LoadOptions{})
		var typed *core.Error
		switch {
		case err == nil:
			_ = l.Close()
		case !errors.As(err, &typed):
			t.Errorf("%v is not typed", err)
		}
		opened, failed := tensorfile.Open(filepath.Join(folder, "fuzz.safetensors.index.json"), tensorfile.OpenOptions{})
		if failed == nil {
			_ = opened.Close()
		} else if !errors.As(failed, &typed) {
			t.Errorf("%v is not typed", failed)
		}
		if (err == nil) != (failed == nil) {
			t.Errorf("Load: %v, Open: %v", err, failed)
		}
	})
}

// A folder without an index is loaded as a whole; a tensor that two of its files have is an error.
func TestLoadAFolderOfShardsWithoutAnIndex(t *testing.T) {
	folder := t.TempDir()
	shard := func(name, tensor string, value byte) {
		text := fmt.Sprintf(`{"__metadata__":null,%q:{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, tensor)
		content := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
		put(t, filepath.Join(folder, name), append(append(content, text...), value))
	}
	shard("model-00001-of-00002.safetensors", "a", 1)
	shard("model-00002-of-00002.safetensors", "b", 2)
	loaded, err := tensorfile.Load(t.Context(), folder, openHost(t), tensorfile.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint8{"a": 1, "b": 2} {
		if got, err := core.ToSlice[uint8](t.Context(), loaded.Tensors[name]); err != nil || !slices.Equal(got, []uint8{want}) {
			t.Errorf("%s is %v, %v, want %d", name, got, err, want)
		}
	}
	if err := loaded.Close(); err != nil {
		t.Error(err)
	}
	shard("other.safetensors", "a", 3)
	_, err = tensorfile.Load(t.Context(), folder, openHost(t), tensorfile.LoadOptions{})
	if !errors.Is(err, core.ErrLayout) || !strings.Contains(err.Error(), "other.safetensors") {
		t.Errorf("a tensor that is there twice: %v", err)
	}
}
