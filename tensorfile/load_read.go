package tensorfile

import (
	"errors"
	"io"
	"sync/atomic"
	"syscall"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/memfault"
)

// stage reads n bytes of the file at off into buffer, whose first byte lies at a multiple of block, and returns them. The
// buffer must be two blocks larger than n. The bytes lie as far after a multiple of block as in the file, so that elements
// which are aligned there are aligned in the buffer.
func (s *shard) stage(buffer []byte, off, n int64) ([]byte, error) {
	if s.direct == nil {
		dst := buffer[off&(block-1):][:n]
		return dst, s.cachedRead(dst, off)
	}
	low := off &^ (block - 1)
	high := (off + n + block - 1) &^ (block - 1)
	if err := s.directRead(buffer[:high-low], low, off+n-low); err != nil {
		return nil, err
	}
	return buffer[off-low:][:n], nil
}

// into reads the bytes of the file at off into dst. bounce returns a buffer of n bytes and two blocks as stage needs it.
// What cannot be read past the page cache into dst, since it does not begin or end at a block, goes through it.
func (s *shard) into(dst []byte, off int64, bounce func(n int64) ([]byte, error)) error {
	if s.direct == nil {
		return s.cachedRead(dst, off)
	}
	end := off + int64(len(dst))
	low, high := (off+block-1)&^(block-1), end&^(block-1)
	if low >= high || (addressOf(dst)+low-off)%s.alignment != 0 {
		return s.through(dst, off, bounce)
	}
	err := s.directRead(dst[low-off:high-off], low, high-low)
	if errors.Is(err, syscall.EFAULT) { // the memory is not that of the host's own, such as a window into a device
		return s.through(dst, off, bounce)
	}
	if err == nil && off < low {
		err = s.through(dst[:low-off], off, bounce)
	}
	if err == nil && high < end {
		err = s.through(dst[high-off:], high, bounce)
	}
	return err
}

// through reads into dst by way of a buffer.
func (s *shard) through(dst []byte, off int64, bounce func(n int64) ([]byte, error)) error {
	b, err := bounce(int64(len(dst)))
	if err != nil {
		return err
	}
	data, err := s.stage(b, off, int64(len(dst)))
	copy(dst, data)
	return err
}

// directRead reads past the page cache. dst and off are aligned to blocks. The file must have the first need bytes; it may
// end before the others.
func (s *shard) directRead(dst []byte, off, need int64) error {
	n, err := s.direct.ReadAt(dst, off)
	if int64(n) >= need {
		return nil
	}
	return s.short(off+int64(n), err)
}

// cachedRead reads through the page cache, by a copy from the mapping or by a call of the system. It also reads a message.
func (s *shard) cachedRead(dst []byte, off int64) error {
	if s.stream != nil {
		return s.stream.readAt(dst, off)
	}
	if s.report.Read == ReadMap {
		file := s.file.share.m.data
		if gone := memfault.Guard(memfault.Within(file), func() { copy(dst, file[off:]) }); gone != nil {
			return s.unreadable(gone)
		}
		return nil
	}
	n, err := s.fd.ReadAt(dst, off)
	if n == len(dst) {
		return nil
	}
	return s.short(off+int64(n), err)
}

// short returns the error for a read that ended at a position.
func (s *shard) short(end int64, err error) error {
	if errors.Is(err, syscall.EFAULT) {
		return err
	}
	if info, failed := s.fd.Stat(); failed == nil && info.Size() < s.before.Size() {
		return loading.errorf(core.ErrInvalid, "%s became shorter while it was loaded: it had %d bytes and has %d", s.path, s.before.Size(), info.Size())
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return loading.errorf(because(core.ErrInvalid, err), "%s cannot be read at byte %d", s.path, end)
}

// unreadable returns the error for a mapped file whose pages are gone.
func (s *shard) unreadable(gone error) error {
	return loading.errorf(because(core.ErrInvalid, gone), "%s cannot be read: it became shorter while it was loaded", s.path)
}

// populate makes the system read the pages of a range of the mapped file, and map them. If all of the file is in the page
// cache, it touches each page: that is sometimes faster than the call of the system and sometimes slower, but its slowest case
// is much the better one. Else it makes the call: a thread that waits for the disk in a page fault holds up Go's scheduler, and
// one in a call does not.
func (s *shard) populate(off, n int64) error {
	file := s.file.share.m.data
	low := off &^ (block - 1)
	part := file[low : off+n]
	if s.report.Cached < 1 && populated(part) {
		return nil
	}
	gone := memfault.Guard(memfault.Within(file), func() {
		var x byte
		for i := 0; i < len(part); i += block {
			x ^= part[i]
		}
		touched.Store(uint32(x))
	})
	if gone != nil {
		return s.unreadable(gone)
	}
	return nil
}

// touched has what populate reads, so that the compiler does not leave out the reading.
var touched atomic.Uint32
