//go:build !unix

package tensorfile

import (
	"os"

	"github.com/dlx-go/dlx/core"
)

// mapBytes fails with ErrNotSupported: files are read on this system. On Windows
// that also leaves them free to be renamed and replaced while tensors are open.
func mapBytes(*os.File, int) ([]byte, error) { return nil, core.ErrNotSupported }

// unmapBytes has nothing to undo.
func unmapBytes([]byte) error { return nil }
