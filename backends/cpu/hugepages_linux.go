package cpu

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugeBytes is the size from which huge pages are requested. It is twice that of a huge page, so that the
// mapping contains one wherever it starts.
const hugeBytes = 4 << 20

// adviseHuge requests huge pages, with which the first touch of large memory is several times faster. Without
// them nothing is lost.
func adviseHuge(p unsafe.Pointer, size uintptr) {
	if size >= hugeBytes {
		_ = unix.Madvise(unsafe.Slice((*byte)(p), size), unix.MADV_HUGEPAGE)
	}
}
