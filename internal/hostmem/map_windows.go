package hostmem

import (
	"os"
	"syscall"
	"unsafe"
)

// asks reports whether mapMemory asks the system.
const asks = true

var (
	kernel32     = syscall.NewLazyDLL("kernel32.dll")
	virtualAlloc = kernel32.NewProc("VirtualAlloc")
	virtualFree  = kernel32.NewProc("VirtualFree")
)

func mapMemory(size int) ([]byte, error) {
	const commitAndReserve, readWrite = 0x3000, 4
	address, _, err := virtualAlloc.Call(0, uintptr(size), commitAndReserve, readWrite)
	if address == 0 {
		return nil, os.NewSyscallError("VirtualAlloc", err)
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), size), nil
}

func unmap(data []byte) error {
	const release = 0x8000
	if ok, _, err := virtualFree.Call(uintptr(unsafe.Pointer(unsafe.SliceData(data))), 0, release); ok == 0 {
		return os.NewSyscallError("VirtualFree", err)
	}
	return nil
}
