package cpu

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/core"
)

// sizeSeals are the seals that fix the size of a file for ever. Whoever shares the file may add F_SEAL_FUTURE_WRITE.
const sizeSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// probeMemFD returns why memory cannot be shared by memfd, or nil if it can.
var probeMemFD = sync.OnceValue(func() error {
	fd, err := createMemFD(int64(os.Getpagesize()))
	if err != nil {
		return core.Errorf(core.ErrNotSupported, "cpu", "memfd_create", "this system cannot make a sealed memfd: %v", err)
	}
	_ = unix.Close(fd)
	return nil
})

// wholePages rounds up to pages. It fails with ErrOutOfMemory beyond maxSize.
func wholePages(size int64) (int64, error) {
	if size > maxSize {
		return 0, core.Errorf(core.ErrOutOfMemory, "cpu", "Alloc", "%d bytes were asked for; no allocation can have more than %d", size, int64(maxSize))
	}
	page := int64(os.Getpagesize())
	return (size + page - 1) / page * page, nil
}

// createMemFD makes a memory file whose size cannot change.
func createMemFD(size int64) (int, error) {
	fd, err := unix.MemfdCreate("dlx", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, systemError(core.ErrOutOfMemory, "memfd_create", err, "no memory file")
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		_ = unix.Close(fd)
		return -1, systemError(core.ErrOutOfMemory, "ftruncate", err, "no memory file of %d bytes", size)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sizeSeals); err != nil {
		_ = unix.Close(fd)
		return -1, systemError(core.ErrNotSupported, "fcntl", err, "the memory file cannot be sealed")
	}
	return fd, nil
}

// newMemFD makes a sealed file of size bytes, whole pages, and maps it. The
// caller owns both.
func newMemFD(size int64) (*core.Handle, mapping, error) {
	fd, err := createMemFD(size)
	if err != nil {
		return nil, mapping{}, err
	}
	h, err := external.Export(core.HandleMemFD, fd)
	if err != nil {
		return nil, mapping{}, err
	}
	m, err := mapFD(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		_ = h.Close()
		return nil, mapping{}, err
	}
	return h, m, nil
}

// mapMemFD maps the bytes that m names and leaves its handle as it is. The first of them lies skip bytes into the mapping.
// If the descriptor or the file does not permit writing, the mapping is for reading only.
func mapMemFD(m core.ExternalMemory) (_ mapping, skip int64, readOnly bool, _ error) {
	fd, err := m.Handle.Number()
	if err != nil {
		return mapping{}, 0, false, importer.Refused("ImportMemory", err)
	}
	if err := importer.CheckFD("ImportMemory", core.HandleMemFD, int(fd), m.Size); err != nil {
		return mapping{}, 0, false, err
	}
	seals, err := unix.FcntlInt(fd, unix.F_GET_SEALS, 0)
	if err != nil {
		return mapping{}, 0, false, systemError(core.ErrInvalid, "fcntl", err, "descriptor %d is not a memfd", fd)
	}
	if seals&unix.F_SEAL_SHRINK == 0 {
		return mapping{}, 0, false, core.Errorf(core.ErrInvalid, "cpu", "ImportMemory", "descriptor %d lacks F_SEAL_SHRINK: its owner could take the memory away; seal it before it is shared", fd)
	}
	flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	if err != nil {
		return mapping{}, 0, false, systemError(core.ErrInvalid, "fcntl", err, "descriptor %d is not open", fd)
	}
	access := unix.PROT_READ | unix.PROT_WRITE
	if readOnly = flags&unix.O_ACCMODE == unix.O_RDONLY || seals&(unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE) != 0; readOnly {
		access = unix.PROT_READ
	}
	skip = m.Offset % int64(os.Getpagesize())
	mapped, err := mapFD(int(fd), m.Offset-skip, m.Length+skip, access)
	return mapped, skip, readOnly, err
}

// mapFD maps a part of a file that starts on a page.
func mapFD(fd int, offset, size int64, access int) (mapping, error) {
	if err := checkAddressable(size); err != nil {
		return mapping{}, err
	}
	p, err := unix.MmapPtr(fd, offset, nil, uintptr(size), access, unix.MAP_SHARED)
	if err != nil {
		return mapping{}, systemError(core.ErrOutOfMemory, "mmap", err, "%d bytes of descriptor %d cannot be mapped", size, fd)
	}
	return mapping{uintptr(p), size}, nil
}
