//go:build cgo && !windows

package dlpack_test

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
)

// TestTensorsOfOpenGLStayInside: DLPack has no number for their device.
func TestTensorsOfOpenGLStayInside(t *testing.T) {
	gl, err := core.Wrap(core.Memory{ID: core.DeviceID{Type: core.DeviceGL}, Handle: 1, Size: 4}, core.Spec{DType: core.TypeUint8, Shape: []int64{4}})
	if err != nil {
		t.Fatal(err)
	}
	defer gl.Close()
	_, err = dlpack.Export(gl)
	wantError(t, err, core.ErrNotSupported)
	_, err = dlpack.ExportLegacy(gl)
	wantError(t, err, core.ErrNotSupported)

	host, err := core.FromSlice([]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	m, err := dlpack.Export(host)
	if err != nil {
		t.Fatal(err)
	}
	m.Tensor.Device.Type = int32(core.DeviceGL)
	_, err = dlpack.Import(m, dlpack.ImportOptions{})
	wantError(t, err, core.ErrDevice)
	dlpack.Delete(m)
}
