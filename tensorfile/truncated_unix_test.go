//go:build unix

package tensorfile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// ofTwoPages makes the content of a file whose header fits a page and whose last
// elements do not.
func ofTwoPages(t *testing.T, format tensorfile.Format, options ...tensorfile.WriteOptions) []byte {
	t.Helper()
	random := make([]byte, 64<<10)
	for i, x := 0, uint32(1); i < len(random); i, x = i+1, x*1664525+1013904223 {
		random[i] = byte(x >> 24) // does not compress
	}
	x := must[*core.Tensor](t)(core.FromSlice(random, 4, int64(len(random)/4)))
	return written(t, format, []tensorfile.Named{{Name: "x", Tensor: x}}, options...)
}

func TestAFileThatIsTruncatedMeanwhileIsAnError(t *testing.T) {
	for _, c := range []struct {
		name   string
		format tensorfile.Format
		data   []byte
		opts   tensorfile.OpenOptions
	}{
		{"compressed", tensorfile.NPZ, ofTwoPages(t, tensorfile.NPZ, tensorfile.WriteOptions{Compress: true}), tensorfile.OpenOptions{}},
		{"compared with its checksum", tensorfile.NPZ, ofTwoPages(t, tensorfile.NPZ), tensorfile.OpenOptions{VerifyChecksums: true}},
		{"unaligned", tensorfile.Safetensors, withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"F64","shape":[8192],"data_offsets":[1,65537]}}`, make([]byte, 65537)...), tensorfile.OpenOptions{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x."+string(c.format))
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			f := must[*tensorfile.File](t)(tensorfile.Open(path, c.opts))
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			_, err := f.Tensor("x")
			checkError(t, err, c.format, core.ErrInvalid, "elements cannot be read")
			if err != nil && !strings.Contains(err.Error(), "truncated") {
				t.Errorf("%v: it does not say why", err)
			}
		})
	}
}

func TestHeadersThatAreTruncatedMeanwhileAreAnError(t *testing.T) {
	for _, format := range []tensorfile.Format{tensorfile.NPY, tensorfile.NPZ, tensorfile.Safetensors} {
		content := ofTwoPages(t, format)
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		data, err := syscall.Mmap(int(file.Fd()), 0, len(content), syscall.PROT_READ, syscall.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Munmap(data) }()
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		_, err = tensorfile.Parse(data, "x."+string(format), tensorfile.OpenOptions{})
		checkError(t, err, format, core.ErrInvalid, "headers")
	}
}

func TestWritingATensorOfATruncatedFileIsAnError(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "x.npy")
	if err := os.WriteFile(path, ofTwoPages(t, tensorfile.NPY), 0o600); err != nil {
		t.Fatal(err)
	}
	f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
	x := must[*core.Tensor](t)(f.Tensor("x"))
	strided := must[*core.Tensor](t)(x.Slice(1, 1, 16, 1))
	if err := os.Truncate(path, int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	for _, format := range []tensorfile.Format{tensorfile.NPY, tensorfile.NPZ, tensorfile.Safetensors} {
		for _, tensor := range []*core.Tensor{x, strided} {
			tensors := []tensorfile.Named{{Name: "x", Tensor: tensor}}
			err := tensorfile.Write(t.Context(), new(bytes.Buffer), format, tensors, tensorfile.WriteOptions{})
			checkError(t, err, format, core.ErrInvalid, `tensor "x": its elements cannot be read`)
			// The system itself reads what goes to a file in one piece.
			err = tensorfile.WriteFile(t.Context(), filepath.Join(folder, "out."+string(format)), tensors, tensorfile.WriteOptions{})
			checkError(t, err, format, core.ErrInvalid, "elements cannot be read")
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("left over: %v, %v", left, err)
	}
	if err := tensorfile.Write(t.Context(), new(bytes.Buffer), tensorfile.NPZ, []tensorfile.Named{{Name: "x", Tensor: x}}, tensorfile.WriteOptions{Compress: true}); err == nil {
		t.Error("compressed: no error")
	}
}
