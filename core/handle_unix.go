//go:build unix

package core

import (
	"errors"
	"math"
	"syscall"
)

// checkNumber fails unless number is an open descriptor and t a type of descriptors. It returns what the descriptor
// refers to.
func checkNumber(call string, t HandleType, number uintptr) (fileID, error) {
	if !t.IsFD() {
		return fileID{}, Errorf(ErrNotSupported, "core", call, "dlx does not know handles of type %v on this system", t)
	}
	if number > math.MaxInt32 {
		return fileID{}, Errorf(ErrInvalid, "core", call, "%d is not a descriptor", int64(number)) // -1, mostly
	}
	var s syscall.Stat_t
	if err := syscall.Fstat(int(number), &s); err != nil {
		return fileID{}, descriptorError(ErrInvalid, call, number, err)
	}
	return fileID{wide(s.Dev), wide(s.Ino), s.Mode&syscall.S_IFMT == syscall.S_IFREG}, nil
}

// wide converts a device or inode number, which some systems return as 32 bits.
func wide[T int32 | uint32 | uint64](n T) uint64 { return uint64(n) }

// duplicateNumber returns a second descriptor, which programs that are started do not inherit.
func duplicateNumber(call string, number uintptr) (uintptr, error) {
	d, err := duplicateFD(number)
	if err != nil {
		sentinel := ErrOutOfMemory
		if errors.Is(err, syscall.EBADF) {
			sentinel = ErrInvalid
		}
		return 0, descriptorError(sentinel, call, number, err)
	}
	return d, nil
}

// closeNumber closes a descriptor. It is closed even if that fails, unless it was before.
func closeNumber(call string, number uintptr) error {
	if err := syscall.Close(int(number)); err != nil {
		return descriptorError(ErrInvalid, call, number, err)
	}
	return nil
}

func descriptorError(sentinel error, call string, number uintptr, err error) error {
	e := Errorf(sentinel, "core", call, "descriptor %d: %v", number, err)
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Code = int64(errno)
	}
	return e
}
