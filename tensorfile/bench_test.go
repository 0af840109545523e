package tensorfile_test

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// BenchmarkOpen measures from the path to a tensor and back. With a mapping it
// does not depend on the size of the data.
func BenchmarkOpen(b *testing.B) {
	folder := b.TempDir()
	for _, size := range []struct {
		name  string
		bytes int64
	}{{"4KiB", 4 << 10}, {"256MiB", 256 << 20}} {
		data := must[*core.Tensor](b)(core.FromSlice(make([]float32, size.bytes/4)))
		for _, format := range []tensorfile.Format{tensorfile.NPY, tensorfile.NPZ, tensorfile.Safetensors} {
			path := filepath.Join(folder, size.name+"."+string(format))
			if err := tensorfile.WriteFile(context.Background(), path, []tensorfile.Named{{Name: size.name, Tensor: data}}, tensorfile.WriteOptions{}); err != nil {
				b.Fatal(err)
			}
			b.Run(string(format)+"/"+size.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					f, err := tensorfile.Open(path, tensorfile.OpenOptions{})
					if err != nil {
						b.Fatal(err)
					}
					t, err := f.Tensor(size.name)
					if err != nil {
						b.Fatal(err)
					}
					_ = t.Close()
					_ = f.Close()
				}
			})
		}
	}
}

// BenchmarkTensor measures one more tensor of an open file.
func BenchmarkTensor(b *testing.B) {
	f := must[*tensorfile.File](b)(tensorfile.Open(realPath("digits.safetensors"), tensorfile.OpenOptions{}))
	b.ReportAllocs()
	for b.Loop() {
		t, err := f.Tensor("mean")
		if err != nil {
			b.Fatal(err)
		}
		_ = t.Close()
	}
}

// BenchmarkWrite measures elements that lie in a row and such that are gathered.
func BenchmarkWrite(b *testing.B) {
	row := filled(b, core.TypeFloat32, 1024, 1024)
	slice, err := row.Slice(1, 0, 1024, 2)
	strided := must[*core.Tensor](b)(slice, err)
	for name, t := range map[string]*core.Tensor{"contiguous": row, "strided": strided} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(t.NumBytes())
			for b.Loop() {
				err := tensorfile.Write(context.Background(), io.Discard, tensorfile.NPY, []tensorfile.Named{{Name: "x", Tensor: t}}, tensorfile.WriteOptions{})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
