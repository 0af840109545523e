//go:build unix

package core

import "syscall"

// identify returns the device and inode of the file that a descriptor refers to. ok is
// false if they do not identify the file, as for device files and anonymous inodes. If
// unique is set, the caller knows that each file of this kind has its own inode.
func identify(fd int, unique bool) (device, inode uint64, ok bool) {
	var s syscall.Stat_t
	if syscall.Fstat(fd, &s) != nil {
		return 0, 0, false
	}
	return wide(s.Dev), wide(s.Ino), unique || s.Mode&syscall.S_IFMT == syscall.S_IFREG
}

// wide converts a device or inode number, which some systems return as 32 bits.
func wide[T int32 | uint32 | uint64](n T) uint64 { return uint64(n) }
