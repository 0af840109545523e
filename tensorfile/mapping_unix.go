//go:build unix

package tensorfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// mapBytes maps a file read-only. It returns ErrNotSupported if the file system cannot map.
func mapBytes(file *os.File, size int) ([]byte, error) {
	data, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if errors.Is(err, unix.ENODEV) {
		return nil, because(core.ErrNotSupported, err)
	}
	return data, err
}

// unmapBytes undoes mapBytes.
func unmapBytes(data []byte) error { return unix.Munmap(data) }
