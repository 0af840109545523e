//go:build !cuda

package parts

import "github.com/dlx-go/dlx/core"

// EndExport does nothing: memory is exported as [core.HandleCUDAIPC] by builds with the tag cuda only.
func EndExport(t *core.Tensor) error { return nil }
