package tensorfile_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// Every device of this build and machine gets the same tensors, from files and from streams.
func TestLoadOntoEveryDevice(t *testing.T) {
	folder := t.TempDir()
	path := mixed(t, folder)
	registry := all.New()
	for _, b := range registry.Backends() {
		found, err := b.Devices(t.Context())
		if err != nil {
			t.Logf("%s: left out: %v", b.Name(), err)
			continue
		}
		for _, p := range found {
			t.Run(p.ID.String(), func(t *testing.T) {
				d, err := b.Open(t.Context(), p.ID)
				if err != nil {
					t.Skip(err)
				}
				t.Cleanup(func() {
					if err := d.Close(); err != nil {
						t.Error(err)
					}
				})
				for _, mode := range readModes[2:] {
					l := load(t, path, d, tensorfile.LoadOptions{Read: mode, Budget: 2 << 20})
					checkLoaded(t, path, d, l)
					t.Logf("%s: buffers %q, %d bytes; %d allocations", mode, l.Report.Buffers, l.Report.Staged, l.Report.Allocated)
					part := load(t, path, d, tensorfile.LoadOptions{Read: mode, DType: core.TypeFloat16, Only: []string{"huge"}, Slices: []tensorfile.Slice{{Axis: 2, Index: 1, Count: 2}}})
					if got := fmt.Sprint(part.Tensors["huge"].Shape()); got != "[5 400 167]" {
						t.Errorf("part: %s", got)
					}
				}
				data := content(t, path)
				l, err := tensorfile.Read(t.Context(), bytes.NewReader(data), d, tensorfile.ReadOptions{Budget: 2 << 20})
				if err != nil {
					t.Fatal(err)
				}
				checkRead(t, path, d, l)
				var tensors []tensorfile.Named
				for name, x := range l.Tensors {
					tensors = append(tensors, tensorfile.Named{Name: name, Tensor: x})
				}
				if !bytes.Equal(written(t, tensorfile.Safetensors, tensors), data) {
					t.Error("what Write writes is not what Read has read")
				}
			})
		}
	}
}
