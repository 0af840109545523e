//go:build unix

package exchange

import (
	"errors"
	"syscall"

	"github.com/dlx-go/dlx/core"
)

// closeFD closes a descriptor. It cannot fail in a way that leaves it open.
func closeFD(fd int) { _ = syscall.Close(fd) }

// fileID names the file that a descriptor stands for; ok is false if the number
// does not tell files of its kind apart, as with devices and anonymous inodes.
func fileID(fd int, unique bool) (dev, ino uint64, ok bool) {
	var s syscall.Stat_t
	if syscall.Fstat(fd, &s) != nil {
		return 0, 0, false
	}
	return wide(s.Dev), s.Ino, unique || s.Mode&syscall.S_IFMT == syscall.S_IFREG
}

// wide is a number of a device, which some systems give as an int32.
func wide[T int32 | uint32 | uint64](n T) uint64 { return uint64(n) }

// duplicateFD returns a second descriptor, which the caller owns and no child
// process inherits. It fails with core.ErrInvalid if fd is not open, and with
// core.ErrOutOfMemory where no more descriptors can be had.
func duplicateFD(fd int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	dup, err := syscall.Dup(fd)
	if err != nil {
		sentinel := core.ErrOutOfMemory
		if errors.Is(err, syscall.EBADF) {
			sentinel = core.ErrInvalid
		}
		failed := core.Errorf(sentinel, "exchange", "dup", "descriptor %d: %v", fd, err)
		var errno syscall.Errno
		if errors.As(err, &errno) {
			failed.Code = int64(errno)
		}
		return -1, failed
	}
	syscall.CloseOnExec(dup)
	return dup, nil
}
