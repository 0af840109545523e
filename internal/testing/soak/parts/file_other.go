//go:build !unix

package parts

import "github.com/dlx-go/dlx/core"

// Mapped fails: files are mapped on Unix only.
func Mapped(skip int64, fill []byte, write bool) (core.Memory, error) {
	return core.Memory{}, core.Errorf(core.ErrNotSupported, "soak", "mmap", "not on this system")
}
