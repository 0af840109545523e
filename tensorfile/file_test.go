package tensorfile_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/tensorfile"
)

func TestOpenReadsRealFiles(t *testing.T) {
	images := must[*tensorfile.File](t)(tensorfile.Open(realPath("digits.npy"), tensorfile.OpenOptions{}))
	x := must[*core.Tensor](t)(images.Tensor("digits"))
	if images.Format() != tensorfile.NPY || x.DType() != core.TypeFloat64 || !slices.Equal(x.Shape(), []int64{1797, 8, 8}) {
		t.Fatalf("got %v", x)
	}
	values, err := core.Values[float64](x)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	if sum != 561718 {
		t.Errorf("the images sum up to %v, want 561718", sum)
	}

	fortran := must[*tensorfile.File](t)(tensorfile.Open(realPath("digits_fortran.npy"), tensorfile.OpenOptions{}))
	mean := must[*core.Tensor](t)(fortran.Tensor("digits_fortran"))
	if !slices.Equal(mean.Layout().Strides(), []int64{1, 10, 80}) {
		t.Errorf("strides %v, want those of column-major order", mean.Layout().Strides())
	}
	for _, name := range []string{"digits.npz", "digits_compressed.npz", "digits.safetensors"} {
		f := must[*tensorfile.File](t)(tensorfile.Open(realPath(name), tensorfile.OpenOptions{}))
		checkSame(t, must[*core.Tensor](t)(f.Tensor("mean")), mean)
		if first := must[*core.Tensor](t)(f.Tensor("first")); first.DType() != core.TypeUint8 || first.NumElements() != 1024 {
			t.Errorf("%s: first is %v", name, first)
		}
	}
}

func TestTensorsAreAlignedForTheirType(t *testing.T) {
	for _, name := range realFiles {
		f := must[*tensorfile.File](t)(tensorfile.Open(realPath(name), tensorfile.OpenOptions{}))
		for _, info := range f.Tensors() {
			x := must[*core.Tensor](t)(f.Tensor(info.Name))
			size, _ := x.DType().ItemSize()
			if p, err := x.Address(); err != nil || p%uintptr(size) != 0 {
				t.Errorf("%s, %s: address %#x is not a multiple of %d; %v", name, info.Name, p, size, err)
			}
		}
	}
}

func TestUnalignedTensorsStayInPlaceIfAskedFor(t *testing.T) {
	data := realData(t, "digits.npz")
	aligned := must[*tensorfile.File](t)(tensorfile.Parse(data, "digits.npz", tensorfile.OpenOptions{}))
	asTheyAre := must[*tensorfile.File](t)(tensorfile.Parse(data, "digits.npz", tensorfile.OpenOptions{Unaligned: true}))
	if mean := aligned.Tensors()[0]; mean.Name != "mean" || mean.InPlace {
		t.Fatalf("%+v: want an array that NumPy did not align", mean)
	}
	for _, info := range asTheyAre.Tensors() {
		if !info.InPlace {
			t.Errorf("%s is not in place", info.Name)
		}
		x := must[*core.Tensor](t)(asTheyAre.Tensor(info.Name))
		checkSame(t, x, must[*core.Tensor](t)(aligned.Tensor(info.Name)))
		memory, _ := memoryOf(t, x)
		if &memory[0] != &data[info.Offset] {
			t.Errorf("%s: the elements are not in place", info.Name)
		}
	}
}

func TestOpenTellsWhatItCannotOpen(t *testing.T) {
	folder := t.TempDir()
	path := func(name, content string) string {
		p := filepath.Join(folder, name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	missing := filepath.Join(folder, "missing.npy")
	tests := []struct {
		rule   string
		path   string
		format tensorfile.Format
		want   error
		field  string
	}{
		{"missing file", missing, tensorfile.NPY, core.ErrInvalid, "opened"},
		{"folder", t.TempDir(), "tensorfile", core.ErrInvalid, "has no file named *.safetensors.index.json or *.safetensors"},
		{"empty file of unknown format", path("empty", ""), "tensorfile", core.ErrNotSupported, "extension"},
		{"empty file of known format", path("empty.safetensors", ""), tensorfile.Safetensors, core.ErrLayout, "header length"},
		{"text", path("notes.txt", "just text, and more of it"), "tensorfile", core.ErrNotSupported, "notes.txt"},
		{"extension of another format", path("x.NPZ", string(npy("{}"))), tensorfile.NPZ, core.ErrNotSupported, "extension .npy"},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			_, err := tensorfile.Open(test.path, tensorfile.OpenOptions{})
			checkError(t, err, test.format, test.want, test.field)
		})
	}
	_, err := tensorfile.Open(missing, tensorfile.OpenOptions{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v: the system's reason is lost", err)
	}
	if text := err.Error(); !strings.Contains(text, missing) || strings.Contains(text, core.ErrInvalid.Error()) {
		t.Errorf("%q must name the file, and not speak of arguments", text)
	}
}

func TestFormatIsFoundByContentWhereTheExtensionSaysNothing(t *testing.T) {
	for name, want := range map[string]tensorfile.Format{
		"digits.npy": tensorfile.NPY, "digits.npz": tensorfile.NPZ, "digits.safetensors": tensorfile.Safetensors,
	} {
		f := must[*tensorfile.File](t)(tensorfile.Parse(realData(t, name), "digits.bin", tensorfile.OpenOptions{}))
		if f.Format() != want {
			t.Errorf("%s is taken for %s", name, f.Format())
		}
	}
	empty := must[*tensorfile.File](t)(tensorfile.Parse(archive(t), "", tensorfile.OpenOptions{}))
	if empty.Format() != tensorfile.NPZ || len(empty.Tensors()) != 0 {
		t.Errorf("an empty archive is taken for %s with %v", empty.Format(), empty.Tensors())
	}
}

// TestTruncatedFiles cuts every real file at each byte of its headers and at many places behind.
func TestTruncatedFiles(t *testing.T) {
	for _, name := range realFiles {
		data := realData(t, name)
		format, err := tensorfile.FormatOf(name)
		if err != nil {
			t.Fatal(err)
		}
		step := 1
		for n := 0; n < len(data); n += step {
			if n == 1024 {
				step = 37 // a prime: the places differ modulo every alignment
			}
			// The capacity is cut too, so that reading beyond the end panics.
			f, err := tensorfile.Parse(data[:n:n], name, tensorfile.OpenOptions{})
			if err == nil {
				_ = f.Close()
			}
			var e *core.Error
			if !errors.As(err, &e) || e.Backend != string(format) || e.Detail == "" ||
				!errors.Is(err, core.ErrLayout) && !errors.Is(err, core.ErrInvalid) {
				t.Fatalf("%s cut to %d bytes of %d: %v", name, n, len(data), err)
			}
		}
	}
}

func TestTensorsOutliveTheFile(t *testing.T) {
	before := core.Live()["tensorfile.mapping"]
	f, err := tensorfile.Open(realPath("digits.safetensors"), tensorfile.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := f.Tensor("total")
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.Tensor("total")
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	_ = f.Close()
	_ = a.Close()
	if _, err := f.Tensor("total"); !errors.Is(err, core.ErrClosed) {
		t.Errorf("a tensor of a closed file: %v", err)
	}
	if total, err := core.Values[float64](b); err != nil || total[0] != 561718 {
		t.Errorf("after Close: %v, %v", total, err)
	}
	if n := core.Live()["tensorfile.mapping"] - before; n != 1 {
		t.Errorf("%d mappings are open, want 1", n)
	}
	_ = b.Close()
	if n := core.Live()["tensorfile.mapping"] - before; n != 0 {
		t.Errorf("%d mappings are open, want 0", n)
	}
	if len(f.Tensors()) == 0 || f.Metadata() == nil {
		t.Error("what a file says of itself is gone after Close")
	}
}

func TestTensorByUnknownName(t *testing.T) {
	f := must[*tensorfile.File](t)(tensorfile.Open(realPath("digits.npy"), tensorfile.OpenOptions{}))
	_, err := f.Tensor("labels")
	checkError(t, err, tensorfile.NPY, core.ErrInvalid, `no tensor "labels"`)
}

func TestFileIsSafeForConcurrentUse(t *testing.T) {
	for _, name := range realFiles {
		f, err := tensorfile.Open(realPath(name), tensorfile.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			for _, info := range f.Tensors() {
				wg.Go(func() {
					x, err := f.Tensor(info.Name)
					if errors.Is(err, core.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					if x.NumBytes() != info.Bytes {
						t.Errorf("%v has %d bytes", x, x.NumBytes())
					}
					_ = x.Close()
				})
			}
			wg.Go(func() { _ = f.Close() })
		}
		wg.Wait()
	}
}

func TestForgottenFileIsClosedByTheCollector(t *testing.T) {
	if _, err := tensorfile.Open(realPath("digits.npy"), tensorfile.OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForNoMapping(t)
}

func TestNoDescriptorStaysOpen(t *testing.T) {
	folder := t.TempDir()
	before := coretest.Descriptors()
	for range 10 {
		for _, name := range realFiles {
			f := must[*tensorfile.File](t)(tensorfile.Open(realPath(name), tensorfile.OpenOptions{}))
			x := must[*core.Tensor](t)(f.Tensor(f.Tensors()[0].Name))
			data := realData(t, name)
			cut := filepath.Join(folder, name)
			if err := os.WriteFile(cut, data[:len(data)-1], 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := tensorfile.Open(cut, tensorfile.OpenOptions{}); err == nil {
				t.Fatalf("%s was opened without its last byte", name)
			}
			named := []tensorfile.Named{{Name: "x", Tensor: x}, {Name: "x", Tensor: x}}
			if err := tensorfile.WriteFile(t.Context(), cut, named, tensorfile.WriteOptions{}); err == nil {
				t.Fatal("a name was written twice")
			}
			if err := tensorfile.WriteFile(t.Context(), cut, named[:1], tensorfile.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if after := coretest.Descriptors(); after != before {
		t.Errorf("%d descriptors are open, before %d", after, before)
	}
}

func TestParseLeavesTheDataAsItIs(t *testing.T) {
	for _, name := range realFiles {
		data := realData(t, name)
		kept := bytes.Clone(data)
		f := must[*tensorfile.File](t)(tensorfile.Parse(data, name, tensorfile.OpenOptions{}))
		for _, info := range f.Tensors() {
			must[*core.Tensor](t)(f.Tensor(info.Name))
		}
		if !bytes.Equal(data, kept) {
			t.Errorf("%s was changed", name)
		}
	}
}
