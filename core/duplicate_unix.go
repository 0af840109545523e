//go:build unix && !linux

package core

import "syscall"

// duplicateFD returns a second descriptor, which programs that are started do not inherit.
func duplicateFD(number uintptr) (uintptr, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	d, err := syscall.Dup(int(number))
	if err != nil {
		return 0, err
	}
	syscall.CloseOnExec(d)
	return uintptr(d), nil
}
