package tensorfile_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/tensorfile"
)

func TestCanWriteFailsAsWriteWould(t *testing.T) {
	formats := []tensorfile.Format{tensorfile.NPY, tensorfile.NPZ, tensorfile.Safetensors}
	good := filled(t, core.TypeInt32, 4)
	for _, tensors := range [][]tensorfile.Named{
		nil,
		{{Name: "a", Tensor: good}},
		{{Name: "a", Tensor: good}, {Name: "b", Tensor: good}},
		{{Name: "x", Tensor: good}, {Name: "x", Tensor: good}},
		{{Name: "\xff", Tensor: good}},
		{{Name: "__metadata__", Tensor: good}},
		{{Name: strings.Repeat("x", 1<<16-4), Tensor: good}},
		{{Name: "x", Tensor: filled(t, core.TypeBFloat16, 4)}},
		{{Name: "x", Tensor: filled(t, core.TypeComplex128, 4)}},
		{{Name: "x", Tensor: filled(t, core.TypeFloat4E2M1FN, 4)}},
		{{Name: "x", Tensor: filled(t, core.TypeFloat4E2M1FN, 3)}},
		{{Name: "x", Tensor: filled(t, core.DType{Code: typecode.Float, Bits: 32, Lanes: 4}, 2)}},
	} {
		var infos []tensorfile.Info
		for _, x := range tensors {
			infos = append(infos, tensorfile.Info{Name: x.Name, DType: x.Tensor.DType(), Shape: x.Tensor.Shape()})
		}
		for _, format := range formats {
			want := tensorfile.Write(context.Background(), io.Discard, format, tensors, tensorfile.WriteOptions{})
			got := tensorfile.CanWrite(format, infos)
			if (got == nil) != (want == nil) || want != nil && got.Error() != want.Error() {
				t.Errorf("%s, %d tensors, the last %.20q: %v, but Write: %v", format, len(infos), lastName(infos), got, want)
			}
		}
	}
	if err := tensorfile.CanWrite("hdf5", []tensorfile.Info{{Name: "x"}}); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("unknown format: %v", err)
	}
}

// lastName is the name of the last tensor, empty if there is none.
func lastName(infos []tensorfile.Info) string {
	if len(infos) == 0 {
		return ""
	}
	return infos[len(infos)-1].Name
}
