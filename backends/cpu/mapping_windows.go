package cpu

import (
	"golang.org/x/sys/windows"

	"github.com/dlx-go/dlx/core"
)

// mapMemory commits zeroed private pages.
func mapMemory(size uintptr) (uintptr, error) {
	addr, err := windows.VirtualAlloc(0, size, windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return 0, systemError(core.ErrOutOfMemory, "VirtualAlloc", err, "no memory for %d bytes", size)
	}
	return addr, nil
}

func unmapMemory(addr, _ uintptr) error { return windows.VirtualFree(addr, 0, windows.MEM_RELEASE) }
