//go:build cuda

package parts

import (
	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/core"
)

// EndExport says that no other process has a tensor's memory open, which was exported as
// [core.HandleCUDAIPC]. Without that the device keeps it until it closes.
func EndExport(t *core.Tensor) error {
	b, err := t.Buffer()
	if err != nil {
		return err
	}
	return cuda.EndExport(b)
}
