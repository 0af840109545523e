//go:build unix

package core

import "syscall"

// identify names the file that a descriptor stands for; ok is false if the number
// does not tell files of its kind apart, as with devices and anonymous inodes. unique
// says that each file of its kind has an inode of its own.
func identify(fd int, unique bool) (device, inode uint64, ok bool) {
	var s syscall.Stat_t
	if syscall.Fstat(fd, &s) != nil {
		return 0, 0, false
	}
	return wide(s.Dev), wide(s.Ino), unique || s.Mode&syscall.S_IFMT == syscall.S_IFREG
}

// wide is a number of a device or an inode, which some systems give as 32 bits.
func wide[T int32 | uint32 | uint64](n T) uint64 { return uint64(n) }
