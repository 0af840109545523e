//go:build !unix

package tensorfile

import (
	"os"

	"github.com/dlx-go/dlx/core"
)

// mapBytes returns ErrNotSupported: files are read on this system. On Windows, this also
// allows programs to rename and replace files while tensors are open.
func mapBytes(*os.File, int) ([]byte, error) { return nil, core.ErrNotSupported }

// unmapBytes does nothing.
func unmapBytes([]byte) error { return nil }
