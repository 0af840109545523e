package cpu

import "github.com/dlx-go/dlx/core"

// mapping is memory from the operating system. It has one owner.
type mapping struct {
	addr uintptr // 0 once unmapped
	size int64   // bytes
}

// newMapping maps private memory, aligned to at least 256 bytes. It fails with
// ErrOutOfMemory.
func newMapping(size int64) (mapping, error) {
	if err := checkAddressable(size); err != nil {
		return mapping{}, err
	}
	addr, err := mapMemory(uintptr(size))
	return mapping{addr, size}, err
}

// checkAddressable fails for a size that a 32-bit system cannot map.
func checkAddressable(size int64) error {
	if int64(int(size)) != size {
		return core.Errorf(core.ErrOutOfMemory, "cpu", "Alloc", "%d bytes are more than this system can address", size)
	}
	return nil
}

func (m *mapping) open() bool { return m.addr != 0 }

// unmap returns the memory to the system.
func (m *mapping) unmap() {
	// Linux may refuse at its limit on the number of mappings. The address range is
	// then lost, and there is nothing that a caller could do about it.
	_ = unmapMemory(m.addr, uintptr(m.size))
	m.addr = 0
}
