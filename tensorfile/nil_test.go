package tensorfile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/tensorfile"
)

func TestNilArguments(t *testing.T) {
	folder := t.TempDir()
	sound := filled(t, core.TypeFloat32, 2, 3)
	path := filepath.Join(folder, "x.safetensors")
	if err := tensorfile.WriteFile(t.Context(), path, []tensorfile.Named{{Name: "x", Tensor: sound}}, tensorfile.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	coretest.CheckNils(t, map[string]any{
		"Open": tensorfile.Open, "Parse": tensorfile.Parse, "FormatOf": tensorfile.FormatOf, "Match": tensorfile.Match, "Load": tensorfile.Load, "LoadFrom": tensorfile.LoadFrom, "LoadAll": tensorfile.LoadAll, "LoadFiles": tensorfile.LoadFiles, "Read": tensorfile.Read,
		"Save": tensorfile.Save, "WriteFile": tensorfile.WriteFile,
		"Write": tensorfile.Write, "CanWrite": tensorfile.CanWrite,
		"File": new(tensorfile.File), "Loaded": new(tensorfile.Loaded), "Named": tensorfile.Named{}, "Slice": tensorfile.Slice{},
	},
		path, filepath.Join(folder, "y.npz"), tensorfile.NPY, tensorfile.NPZ, tensorfile.Safetensors, openHost(t),
		(*bytes.Buffer)(nil), new(bytes.Buffer), (*os.File)(nil), []byte("{}"), sound,
		tensorfile.Named{Name: "x", Tensor: sound}, tensorfile.Named{Name: "x"}, map[string]*core.Tensor{"x": sound}, map[string]*core.Tensor{"x": nil},
		tensorfile.OpenOptions{Unaligned: true}, tensorfile.WriteOptions{Compress: true})
}
