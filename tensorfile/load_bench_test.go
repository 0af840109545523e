package tensorfile_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// BenchmarkLoad loads a file of many tensors of 1 KiB, which shows what each tensor costs.
func BenchmarkLoad(b *testing.B) {
	const count = 20_000
	x := filled(b, core.TypeFloat32, 256)
	tensors := make([]tensorfile.Named, count)
	for i := range tensors {
		tensors[i] = tensorfile.Named{Name: fmt.Sprintf("model.layers.%d.weight", i), Tensor: x}
	}
	path := filepath.Join(b.TempDir(), "x.safetensors")
	if err := tensorfile.WriteFile(b.Context(), path, tensors, tensorfile.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
	d := openHost(b)
	for _, mode := range readModes[2:] {
		b.Run(string(mode), func(b *testing.B) {
			b.SetBytes(count * x.NumBytes())
			for b.Loop() {
				l, err := tensorfile.Load(b.Context(), path, d, tensorfile.LoadOptions{Read: mode})
				if err != nil {
					b.Fatal(err)
				}
				_ = l.Close()
			}
		})
	}
}
