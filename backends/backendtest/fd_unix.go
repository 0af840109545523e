//go:build unix

package backendtest

import (
	"io"
	"os"
	"syscall"
)

// fileID identifies an open file.
type fileID struct{ device, inode uint64 }

// fileOf identifies the file of a descriptor.
func fileOf(fd int) (fileID, error) {
	var s syscall.Stat_t
	if err := syscall.Fstat(fd, &s); err != nil {
		return fileID{}, err
	}
	return fileID{uint64(s.Dev), uint64(s.Ino)}, nil //nolint:unconvert // the types differ from system to system
}

// bytesOf returns the size of what can be mapped by a descriptor.
func bytesOf(fd int) (int64, error) { return syscall.Seek(fd, 0, io.SeekEnd) }

// descriptors counts those that the process has open.
func descriptors() (int, error) {
	list, err := os.ReadDir("/dev/fd")
	return len(list), err
}
