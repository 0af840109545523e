//go:build !cgo

package arrow

import (
	"context"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// ExportDevice needs cgo. Without it, ExportDevice returns core.ErrNotSupported.
func ExportDevice(ctx context.Context, t *core.Tensor, array, schema unsafe.Pointer, o ExportOptions) error {
	return core.Errorf(core.ErrNotSupported, backend, "ExportDevice", "the program was built without cgo")
}

// ImportDevice needs cgo. Without it, ImportDevice returns core.ErrNotSupported.
func ImportDevice(ctx context.Context, array, schema unsafe.Pointer, o ImportOptions) (*core.Tensor, error) {
	return nil, core.Errorf(core.ErrNotSupported, backend, "ImportDevice", "the program was built without cgo")
}
