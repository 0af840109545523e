package tensorfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// What people have under the name of a file of tensors is named, with what to do about it.
func TestAFileThatIsAnotherOneIsNamed(t *testing.T) {
	files := map[string]struct{ content, says string }{
		"pointer":   {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "git lfs pull"},
		"page":      {"\n<!DOCTYPE html>\n<html><body>Sign in</body></html>", "HTML page"},
		"html":      {"<HTML><body>404</body></HTML>", "HTML page"},
		"xml":       {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "XML"},
		"json":      {`{"error": "Repository not found"}`, "JSON"},
		"torch":     {"PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00\x00\x00\x00\x00archive/data.pkl", "torch.save"},
		"old torch": {"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", "pickle"},
		"gguf":      {"GGUF\x03\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00", "GGUF"},
		"hdf5":      {"\x89HDF\r\n\x1a\n\x00\x00\x00\x00", "HDF5"},
		"gzip":      {"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "gzip"},
		"npy":       {"\x93NUMPY\x01\x00v\x00{'descr': '<f4'", ".npy"},
	}
	for name, c := range files {
		for _, extension := range []string{".safetensors", ".npy", ".npz", ".bin"} {
			if name == "npy" && extension == ".npy" || name == "torch" && extension == ".npz" ||
				extension == ".bin" && (name == "npy" || name == "torch") {
				continue // is read as what it is
			}
			_, err := tensorfile.Parse([]byte(c.content), name+extension, tensorfile.OpenOptions{})
			var e *core.Error
			if !errors.Is(err, core.ErrNotSupported) || !errors.As(err, &e) || !strings.Contains(e.Detail, c.says) {
				t.Errorf("%s%s: %v, want ErrNotSupported that says %q", name, extension, err, c.says)
			}
		}
	}
}

// Each error of a file has the file's name, also that of a shard.
func TestErrorsNameTheFile(t *testing.T) {
	good, err := os.ReadFile("../testdata/digits.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	short := write("short.safetensors", good[:len(good)-1])
	index := write("model.safetensors.index.json", []byte(`{"weight_map": {"digits": "short.safetensors"}}`))
	missing := write("other.safetensors.index.json", []byte(`{"weight_map": {"digits": "gone.safetensors"}}`))
	load := func(path string) error {
		all, err := tensorfile.Load(t.Context(), path, openHost(t), tensorfile.LoadOptions{})
		if err == nil {
			_ = all.Close()
		}
		return err
	}
	_, err = tensorfile.Open(short, tensorfile.OpenOptions{})
	for _, c := range []struct {
		err  error
		says string
	}{{err, short}, {load(short), short}, {load(index), short}, {load(missing), "gone.safetensors"}, {load(missing), missing}} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%v, want an error that names %s", c.err, c.says)
		}
	}
}
