//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
)

// Memory of the device under a type that does not say so, such as kDLVPI, can be copied if the program says so.
func TestMemoryOfAnotherKindIsCopied(t *testing.T) {
	d := opened(t)
	content := []byte("memory that says nothing")
	x := row(t, d, int64(len(content)), core.AllocOptions{})
	put(t, d, x, content)
	m, err := dlpack.Export(x)
	if err != nil {
		t.Fatal(err)
	}
	m.Tensor.Device.Type = int32(core.DeviceVPI)
	if got := get(t, d, keep(t)(dlpack.Import(m, dlpack.ImportOptions{OnDevice: d.ID()}))); !bytes.Equal(got, content) {
		t.Errorf("%q came back", got)
	}
	dlpack.Flush()
}
