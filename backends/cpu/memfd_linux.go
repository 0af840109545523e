package cpu

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/core"
)

// sizeSeals fix the size of a file for ever.
const sizeSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// probeMemFD says why memory cannot be shared by memfd, nil if it can.
var probeMemFD = sync.OnceValue(func() error {
	fd, err := createMemFD(int64(os.Getpagesize()))
	if err != nil {
		return core.Errorf(core.ErrNotSupported, "cpu", "memfd_create", "this system gives no sealed memfd: %v", err)
	}
	closeFD(fd)
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

// createMemFD makes a file in memory whose size cannot change.
func createMemFD(size int64) (int, error) {
	fd, err := unix.MemfdCreate("dlx", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, systemError(core.ErrOutOfMemory, "memfd_create", err, "no memory file")
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		closeFD(fd)
		return -1, systemError(core.ErrOutOfMemory, "ftruncate", err, "no memory file of %d bytes", size)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sizeSeals); err != nil {
		closeFD(fd)
		return -1, systemError(core.ErrNotSupported, "fcntl", err, "the memory file cannot be sealed")
	}
	return fd, nil
}

// newMemFD makes a sealed file of size bytes, whole pages, and maps it. The
// caller owns both.
func newMemFD(size int64) (int, mapping, error) {
	fd, err := createMemFD(size)
	if err != nil {
		return -1, mapping{}, err
	}
	m, err := mapFD(fd, 0, size)
	if err != nil {
		closeFD(fd)
		return -1, mapping{}, err
	}
	return fd, m, nil
}

// mapMemFD maps the bytes that m names, which stays the owner of its descriptor.
// The first of them lies skip bytes into the mapping.
func mapMemFD(m core.ExternalMemory) (_ mapping, skip int64, _ error) {
	if err := importer.CheckFD("ImportMemory", m.Type, m.FD, m.Size); err != nil {
		return mapping{}, 0, err
	}
	seals, err := unix.FcntlInt(uintptr(m.FD), unix.F_GET_SEALS, 0)
	if err != nil {
		return mapping{}, 0, systemError(core.ErrInvalid, "fcntl", err, "FD %d is no memfd", m.FD)
	}
	if seals&unix.F_SEAL_SHRINK == 0 {
		return mapping{}, 0, core.Errorf(core.ErrInvalid, "cpu", "ImportMemory", "FD %d lacks F_SEAL_SHRINK: its owner could take the memory away; seal it before it is shared", m.FD)
	}
	skip = m.Offset % int64(os.Getpagesize())
	mapped, err := mapFD(m.FD, m.Offset-skip, m.Length+skip)
	return mapped, skip, err
}

// mapFD maps a part of a file that starts on a page.
func mapFD(fd int, offset, size int64) (mapping, error) {
	if err := checkAddressable(size); err != nil {
		return mapping{}, err
	}
	p, err := unix.MmapPtr(fd, offset, nil, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		sentinel := core.ErrOutOfMemory
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			sentinel = core.ErrReadOnly
		}
		return mapping{}, systemError(sentinel, "mmap", err, "%d bytes of FD %d cannot be mapped for writing", size, fd)
	}
	return mapping{uintptr(p), size}, nil
}

// duplicateFD returns a second descriptor, which the caller owns.
func duplicateFD(fd int) (int, error) { return external.Duplicate("cpu", "ExportMemory", fd) }

// closeFD closes a descriptor. It cannot fail in a way that leaves it open.
func closeFD(fd int) { _ = unix.Close(fd) }
