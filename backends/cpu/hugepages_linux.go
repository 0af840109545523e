package cpu

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugeBytes is the size from which huge pages are asked for: two of them, so
// that one lies inside wherever the mapping starts.
const hugeBytes = 4 << 20

// adviseHuge asks for huge pages, which the first touch of large memory is
// several times faster with. It is no loss where the system has none.
func adviseHuge(p unsafe.Pointer, size uintptr) {
	if size >= hugeBytes {
		_ = unix.Madvise(unsafe.Slice((*byte)(p), size), unix.MADV_HUGEPAGE)
	}
}
