package core

import "syscall"

// duplicateFD returns a second descriptor, which programs that are started do not inherit.
func duplicateFD(number uintptr) (uintptr, error) {
	d, _, errno := syscall.Syscall(syscall.SYS_FCNTL, number, syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return 0, errno
	}
	return d, nil
}
