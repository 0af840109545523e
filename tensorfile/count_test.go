package tensorfile_test

import (
	"path/filepath"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// filed returns how many tensors, and how many bytes, the metrics have counted for a mechanism between two places.
func filed(from, to core.DeviceID, mechanism string) (tensors, bytes int64) {
	for _, m := range core.ReadMetrics().Moves {
		if m.From == from && m.To == to && m.Mechanism == mechanism {
			return m.Moves, m.Bytes
		}
	}
	return 0, 0
}

func TestMetricsCountWhatFilesBringAndTake(t *testing.T) {
	for _, to := range targets {
		t.Run(to.name, func(t *testing.T) {
			d := to.open(t)
			check := func(what string, from, to core.DeviceID, mechanism string, wantTensors, wantBytes int64, work func()) {
				t.Helper()
				tensors, bytes := filed(from, to, mechanism)
				work()
				nowTensors, nowBytes := filed(from, to, mechanism)
				if nowTensors-tensors != wantTensors || nowBytes-bytes != wantBytes {
					t.Errorf("%s: %d tensors of %d bytes, want %d of %d", what, nowTensors-tensors, nowBytes-bytes, wantTensors, wantBytes)
				}
			}
			// digits.npy has 1797 rows of 64 numbers.
			const elements = 1797 * 64
			path, out := realPath("digits.npy"), filepath.Join(t.TempDir(), "out.safetensors")
			var l *tensorfile.Loaded
			check("load", core.CPU, d.ID(), "load", 1, 2*elements, func() {
				l = load(t, path, d, tensorfile.LoadOptions{DType: core.TypeFloat16})
			})
			check("a load that fails", core.CPU, d.ID(), "load", 0, 0, func() {
				if _, err := tensorfile.Load(t.Context(), path, d, tensorfile.LoadOptions{Only: []string{"absent"}}); err == nil {
					t.Error("it did not fail")
				}
			})
			check("save", d.ID(), core.CPU, "save", 1, 2*elements, func() {
				if _, err := tensorfile.Save(t.Context(), out, l.Tensors, tensorfile.SaveOptions{}); err != nil {
					t.Error(err)
				}
			})
			check("a save that fails", d.ID(), core.CPU, "save", 0, 0, func() {
				if _, err := tensorfile.Save(t.Context(), filepath.Join(out, "no folder.npy"), l.Tensors, tensorfile.SaveOptions{}); err == nil {
					t.Error("it did not fail")
				}
			})
		})
	}
}
