//go:build !unix && !windows

package cpu

import (
	"runtime"
	"sync"
	"unsafe"
)

// pinned holds Go memory that stands in for mappings, by address.
var pinned sync.Map // of uintptr to *runtime.Pinner

// mapMemory takes memory from Go's heap, since the system offers no other.
func mapMemory(size uintptr) (uintptr, error) {
	memory := make([]byte, size+alignment-1)
	skip := -uintptr(unsafe.Pointer(&memory[0])) % alignment
	pin := new(runtime.Pinner)
	pin.Pin(&memory[skip])
	addr := uintptr(unsafe.Pointer(&memory[skip]))
	pinned.Store(addr, pin)
	return addr, nil
}

func unmapMemory(addr, _ uintptr) error {
	pin, _ := pinned.LoadAndDelete(addr)
	pin.(*runtime.Pinner).Unpin()
	return nil
}
