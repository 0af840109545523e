package tensorfile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
	"github.com/dlx-go/dlx/tensorfile"
)

// content returns the bytes of a file.
func content(tb testing.TB, path string) []byte {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// What is loaded and saved again is the same file, byte by byte.
func TestSaveWritesWhatWasLoaded(t *testing.T) {
	folder := t.TempDir()
	paths := []string{mixed(t, folder), realPath("digits.npy"), realPath("digits_fortran.npy"), realPath("digits.safetensors")}
	for _, to := range targets {
		d := to.open(t)
		for _, path := range paths {
			for _, budget := range []int64{0, 128 << 10} {
				l := load(t, path, d, tensorfile.LoadOptions{Read: tensorfile.ReadDirect})
				out := filepath.Join(folder, "out"+filepath.Ext(path))
				var last, total int64
				files, err := tensorfile.Save(t.Context(), out, l.Tensors, tensorfile.SaveOptions{Budget: budget, Progress: func(done, of int64) { last, total = done, of }})
				if err != nil || !slices.Equal(files, []string{out}) {
					t.Fatalf("%s: %v, %q", to.name, err, files)
				}
				f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
				if meta := f.Metadata(); meta != nil {
					if _, err = tensorfile.Save(t.Context(), out, l.Tensors, tensorfile.SaveOptions{Budget: budget, Metadata: meta}); err != nil {
						t.Fatal(err)
					}
				}
				if !bytes.Equal(content(t, out), content(t, path)) {
					t.Errorf("%s: %s is another file", to.name, path)
				}
				if onDevice := d.ID() != core.CPU && l.Report.Loaded > 0; onDevice != (total > 0) || last != total {
					t.Errorf("%s: %d of %d bytes", to.name, last, total)
				}
			}
		}
	}
}

func TestSaveOfStridedTensors(t *testing.T) {
	path := mixed(t, t.TempDir())
	for _, to := range targets {
		d := to.open(t)
		l := load(t, path, d, tensorfile.LoadOptions{Read: tensorfile.ReadDirect, Only: []string{"huge", "large"}})
		every := must[*core.Tensor](t)(l.Tensors["huge"].Slice(2, 1, 333, 3))
		turned := must[*core.Tensor](t)(l.Tensors["huge"].Permute(2, 0, 1))
		reversed := must[*core.Tensor](t)(l.Tensors["large"].Transpose())
		out := filepath.Join(t.TempDir(), "out.npz")
		all := map[string]*core.Tensor{"every": every, "turned": turned, "reversed": reversed}
		if _, err := tensorfile.Save(t.Context(), out, all, tensorfile.SaveOptions{Budget: 128 << 10}); err != nil {
			t.Fatal(err)
		}
		f := must[*tensorfile.File](t)(tensorfile.Open(out, tensorfile.OpenOptions{VerifyChecksums: true}))
		for name, x := range all {
			got := must[*core.Tensor](t)(f.Tensor(name))
			checkEqual(t, got, onHost(t, d, x))
			if name == "reversed" == got.Layout().IsContiguous() {
				t.Errorf("%s: strides %v", name, got.Layout().Strides())
			}
		}
	}
}

func TestSaveDividesAmongFiles(t *testing.T) {
	path := mixed(t, t.TempDir())
	for _, to := range targets {
		d := to.open(t)
		l := load(t, path, d, tensorfile.LoadOptions{Read: tensorfile.ReadDirect})
		folder := t.TempDir()
		files, err := tensorfile.Save(t.Context(), filepath.Join(folder, "model.safetensors"), l.Tensors, tensorfile.SaveOptions{MaxShard: 300_000})
		if err != nil {
			t.Fatal(err)
		}
		index := files[len(files)-1]
		if len(files) < 5 || filepath.Base(files[0]) != fmt.Sprintf("model-00001-of-%05d.safetensors", len(files)-1) || filepath.Base(index) != "model.safetensors.index.json" {
			t.Fatalf("files %q", files)
		}
		for _, file := range files[:len(files)-1] {
			f := must[*tensorfile.File](t)(tensorfile.Open(file, tensorfile.OpenOptions{}))
			var size int64
			for _, x := range f.Tensors() {
				size += x.Bytes
			}
			if size > 300_000 && len(f.Tensors()) > 1 {
				t.Errorf("%s has %d bytes", file, size)
			}
		}
		again := load(t, index, d, tensorfile.LoadOptions{})
		if got, want := slices.Sorted(maps.Keys(again.Tensors)), slices.Sorted(maps.Keys(l.Tensors)); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		for name, x := range again.Tensors {
			checkEqual(t, onHost(t, d, x), onHost(t, d, l.Tensors[name]))
		}
	}
}

func TestSaveThatFailsLeavesNothing(t *testing.T) {
	path := mixed(t, t.TempDir())
	for _, call := range []string{"NewStream", "Copy", "Record", "work", "cancel"} {
		for n := 1; n < 20; n += n {
			b := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Opaque: n%3 == 1})
			found, err := b.Devices(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			d, err := b.Open(t.Context(), found[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			l, err := tensorfile.Load(t.Context(), path, d, tensorfile.LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			folder := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			fired, want, calls := func() bool { return ctx.Err() != nil }, context.Canceled, 0
			if call != "cancel" {
				fired, want = b.Fail(call, n, core.ErrDeviceLost), core.ErrDeviceLost
			}
			_, err = tensorfile.Save(ctx, filepath.Join(folder, "model.safetensors"), l.Tensors, tensorfile.SaveOptions{MaxShard: 400_000, Budget: 128 << 10, Progress: func(int64, int64) {
				if calls++; calls == n && call == "cancel" {
					cancel()
				}
			}})
			if err == nil && fired() && call != "Record" || err != nil && !errors.Is(err, want) {
				t.Errorf("%s, call %d: %v", call, n, err)
			}
			cancel()
			if left, _ := os.ReadDir(folder); err != nil && len(left) > 0 {
				t.Errorf("%s, call %d: left over: %v", call, n, left)
			}
			_ = l.Close()
			if err := d.Close(); err != nil {
				t.Errorf("%s, call %d: %v", call, n, err)
			}
		}
	}
}

func TestSaveRefusesWhatItCannotWrite(t *testing.T) {
	d := targets[1].open(t)
	x := coretest.Row(t, d, 8, core.AllocOptions{})
	closed := coretest.Row(t, d, 8, core.AllocOptions{})
	_ = closed.Close()
	for name, c := range map[string]struct {
		path    string
		tensors map[string]*core.Tensor
		options tensorfile.SaveOptions
		want    error
	}{
		"extension":   {"x.bin", map[string]*core.Tensor{"x": x}, tensorfile.SaveOptions{}, core.ErrNotSupported},
		"two in .npy": {"x.npy", map[string]*core.Tensor{"x": x, "y": x}, tensorfile.SaveOptions{}, core.ErrInvalid},
		"shards":      {"x.npz", map[string]*core.Tensor{"x": x}, tensorfile.SaveOptions{MaxShard: 1}, core.ErrNotSupported},
		"budget":      {"x.npz", map[string]*core.Tensor{"x": x}, tensorfile.SaveOptions{Budget: 1}, core.ErrInvalid},
		"nil":         {"x.npz", map[string]*core.Tensor{"x": nil}, tensorfile.SaveOptions{}, core.ErrInvalid},
		"closed":      {"x.npz", map[string]*core.Tensor{"x": closed}, tensorfile.SaveOptions{}, core.ErrClosed},
		"a folder":    {".npz", map[string]*core.Tensor{"x": x}, tensorfile.SaveOptions{}, core.ErrInvalid},
	} {
		folder := t.TempDir()
		if name == "a folder" {
			if err := os.Mkdir(filepath.Join(folder, c.path), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		_, err := tensorfile.Save(t.Context(), filepath.Join(folder, c.path), c.tensors, c.options)
		coretest.WantError(t, err, c.want, name)
	}
}

// Of a model that has become small, Load does not take the larger one before for it.
func TestSaveOfOneFileRemovesAnOlderIndex(t *testing.T) {
	folder, d := t.TempDir(), openHost(t)
	path := filepath.Join(folder, "model.safetensors")
	save := func(n int64, options tensorfile.SaveOptions) {
		t.Helper()
		tensors := map[string]*core.Tensor{"a": filled(t, core.TypeFloat32, n), "b": filled(t, core.TypeFloat32, n)}
		if _, err := tensorfile.Save(t.Context(), path, tensors, options); err != nil {
			t.Fatal(err)
		}
	}
	save(100, tensorfile.SaveOptions{MaxShard: 400})
	save(10, tensorfile.SaveOptions{MaxShard: 400})
	_, err := tensorfile.Load(t.Context(), folder, d, tensorfile.LoadOptions{})
	coretest.WantError(t, err, core.ErrLayout, "a folder with the files of two models")
	if l := load(t, path, d, tensorfile.LoadOptions{}); l.Tensors["a"].NumElements() != 10 {
		t.Errorf("loaded %v", l.Report.Files)
	}
	// Without a limit, Save is for the one file, and leaves others alone.
	save(100, tensorfile.SaveOptions{MaxShard: 400})
	save(10, tensorfile.SaveOptions{})
	if l := load(t, folder, d, tensorfile.LoadOptions{}); l.Tensors["a"].NumElements() != 100 {
		t.Errorf("loaded %v", l.Report.Files)
	}
	// What cannot be removed is an error.
	index := filepath.Join(folder, "model.safetensors.index.json")
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(index, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(index, "x"), nil)
	_, err = tensorfile.Save(t.Context(), path, map[string]*core.Tensor{"a": filled(t, core.TypeFloat32, 1)}, tensorfile.SaveOptions{MaxShard: 400})
	if err == nil || !strings.Contains(err.Error(), "older index") {
		t.Errorf("%v", err)
	}
}

// A model that is saved in place of another one, and fails, leaves the other one as it was.
func TestSaveThatFailsKeepsTheOldFiles(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "model.safetensors")
	tensors := map[string]*core.Tensor{"a": filled(t, core.TypeFloat32, 100), "b": filled(t, core.TypeFloat32, 100)}
	files, err := tensorfile.Save(t.Context(), path, tensors, tensorfile.SaveOptions{MaxShard: 400})
	if err != nil {
		t.Fatal(err)
	}
	before := make(map[string][]byte)
	for _, file := range files {
		before[file] = content(t, file)
	}
	closed := filled(t, core.TypeFloat32, 100)
	_ = closed.Close()
	other := map[string]*core.Tensor{"a": filled(t, core.TypeInt32, 100), "b": closed}
	if _, err := tensorfile.Save(t.Context(), path, other, tensorfile.SaveOptions{MaxShard: 400}); !errors.Is(err, core.ErrClosed) {
		t.Fatalf("saved a closed tensor: %v", err)
	}
	for file, want := range before {
		if !bytes.Equal(content(t, file), want) {
			t.Errorf("%s was replaced", file)
		}
	}
	if left, _ := os.ReadDir(folder); len(left) != len(files) {
		t.Errorf("left over: %v", left)
	}
}
