package tensorfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openDirect opens the file for reads past the page cache, and sets the alignment of memory for them.
func (s *shard) openDirect() error {
	fd := int(s.fd.Fd())
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err == nil && (fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC) {
		return errors.New("its file system is memory, there is nothing behind the page cache")
	}
	// Not by its path, which may have become another file.
	direct, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the file system refuses O_DIRECT: %w", err)
	}
	s.alignment = block
	var x unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &x); err == nil && x.Mask&unix.STATX_DIOALIGN != 0 {
		if x.Dio_offset_align == 0 || x.Dio_offset_align > block || x.Dio_mem_align > block {
			_ = unix.Close(direct)
			return fmt.Errorf("the file system reads past the page cache only at multiples of %d bytes", x.Dio_offset_align)
		}
		s.alignment = max(int64(x.Dio_mem_align), 1)
	}
	s.direct = os.NewFile(uintptr(direct), s.path)
	buffer := allocateBlocks(block)
	if n, err := s.direct.ReadAt(buffer, 0); n == 0 && err != nil {
		_ = s.closeDirect()
		s.direct = nil
		return fmt.Errorf("the file system refuses to read past the page cache: %w", err)
	}
	return nil
}

// onlyHeader keeps the system from reading megabytes around each page of the header that is touched: they would be read
// once more past the page cache. restore makes the system read around pages again. size is how many bytes of the file the
// header of a .safetensors file takes, 0 for other files.
func (s *shard) onlyHeader() (size int64, restore func()) {
	m := s.mapped
	if m.unmap == nil || unix.Madvise(m.data, unix.MADV_RANDOM) != nil {
		return 0, func() {}
	}
	fd := int(s.fd.Fd())
	if f, err := FormatOf(s.path); err == nil && f == Safetensors && unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM) == nil {
		var length [lengthSize]byte
		if _, err := s.fd.ReadAt(length[:], 0); err == nil {
			// Of another file this is any number. Too many bytes cost time only.
			size = int64(min(binary.LittleEndian.Uint64(length[:]), maxJSON) + lengthSize)
			size = min(size, int64(len(m.data)))
		}
		_ = unix.Fadvise(fd, 0, 0, unix.FADV_NORMAL)
	}
	return size, func() { _ = unix.Madvise(m.data, unix.MADV_NORMAL) }
}

// expect has the system read the first bytes of the file, which are touched soon.
func (s *shard) expect(size int64) { _ = unix.Fadvise(int(s.fd.Fd()), 0, size, unix.FADV_WILLNEED) } // advice

// cached returns the part of a range of the file that is in the page cache. ok is false if the system does not tell.
func (s *shard) cached(off, n int64) (part float64, ok bool) {
	pages := (off+n+block-1)/block - off/block
	var stat unix.Cachestat_t
	if err := unix.Cachestat(uint(s.fd.Fd()), &unix.CachestatRange{Off: uint64(off), Len: uint64(n)}, &stat, 0); err == nil {
		return min(float64(stat.Cache)/float64(pages), 1), true
	}
	m := s.mapped
	if m.unmap == nil {
		return -1, false
	}
	// Linux before 6.5. If the process may not write the file, mincore says that all of it is there.
	var count int64
	there := make([]byte, min(pages, 64<<10)) // one for each page
	for low, end := off&^(block-1), off+n; low < end; low += int64(len(there)) * block {
		ask := min(end-low, int64(len(there))*block)
		if _, _, err := unix.Syscall(unix.SYS_MINCORE, uintptr(addressOf(m.data)+low), uintptr(ask), uintptr(unsafe.Pointer(unsafe.SliceData(there)))); err != 0 {
			return -1, false
		}
		for _, b := range there[:(ask+block-1)/block] {
			count += int64(b & 1)
		}
	}
	return float64(count) / float64(pages), true
}

// populated makes the system read and map pages of a mapped file, and reports whether it has. It has not before Linux
// 5.14, and for pages that the file no longer has.
func populated(part []byte) bool { return unix.Madvise(part, unix.MADV_POPULATE_READ) == nil }

// hugePage is the size of a huge page on most systems that have them.
const hugePage = 2 << 20

// allocateHuge returns n bytes of memory at a multiple of hugePage and what frees it, which ignores its argument. Huge
// pages are asked for, where they need at most one block more than n bytes: a request to a disk has as many pieces as its
// memory has pages. Without them nothing is lost.
func allocateHuge(n int64) ([]byte, func([]byte) error) {
	whole, err := unix.Mmap(-1, 0, int(n)+hugePage+block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return allocateBlocks(n), nil
	}
	data := whole[mod(-addressOf(whole), hugePage):]
	if huge := (n + block) &^ (hugePage - 1); huge > 0 {
		_ = unix.Madvise(data[:huge], unix.MADV_HUGEPAGE)
	}
	return data[:n:n], func([]byte) error { return unix.Munmap(whole) }
}

// adviseHuge asks for huge pages for memory that nobody has written yet.
func adviseHuge(data []byte) {
	skip := mod(-addressOf(data), hugePage)
	if huge := (int64(len(data)) - skip) &^ (hugePage - 1); huge > 0 {
		_ = unix.Madvise(data[skip:][:huge], unix.MADV_HUGEPAGE)
	}
}
