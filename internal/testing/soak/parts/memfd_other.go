//go:build !linux

package parts

import "github.com/dlx-go/dlx/core"

// HasMemFD reports whether memory of memfds can be had.
const HasMemFD = false

// MemFD fails: memfds are Linux's.
func MemFD(skip int64, fill []byte) (core.ExternalMemory, error) {
	return core.ExternalMemory{}, core.Errorf(core.ErrNotSupported, "soak", "memfd_create", "not on this system")
}

// MapFD fails: memfds are Linux's.
func MapFD(x core.ExternalMemory, told bool) (core.Memory, error) {
	return core.Memory{}, core.Errorf(core.ErrNotSupported, "soak", "mmap", "not on this system")
}
