//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package hostmem

import (
	"os"
	"syscall"
)

// asks reports whether mapMemory asks the system.
const asks = true

func mapMemory(size int) ([]byte, error) {
	data, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	return data, os.NewSyscallError("mmap", err)
}

func unmap(data []byte) error { return syscall.Munmap(data) }
