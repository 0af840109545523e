//go:build unix

package exchange

import (
	"errors"
	"syscall"

	"github.com/dlx-go/dlx/core"
)

// closeFD closes a descriptor. It cannot fail in a way that leaves it open.
func closeFD(fd int) { _ = syscall.Close(fd) }

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
