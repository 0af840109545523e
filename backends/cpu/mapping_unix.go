//go:build unix

package cpu

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// mapMemory maps zeroed private pages.
func mapMemory(size uintptr) (uintptr, error) {
	p, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0, systemError(core.ErrOutOfMemory, "mmap", err, "no memory for %d bytes", size)
	}
	adviseHuge(p, size)
	return uintptr(p), nil
}

func unmapMemory(addr, size uintptr) error {
	return unix.MunmapPtr(*(*unsafe.Pointer)(unsafe.Pointer(&addr)), size)
}
