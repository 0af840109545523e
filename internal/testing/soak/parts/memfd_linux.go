package parts

import (
	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// HasMemFD reports whether memory of memfds can be had.
const HasMemFD = true

// MemFD is a handle of a memfd with these bytes from skip bytes into it on. The caller
// closes it.
func MemFD(skip int64, fill []byte) (core.ExternalMemory, error) {
	fd, err := unix.MemfdCreate("soak", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return core.ExternalMemory{}, core.Errorf(core.ErrOutOfMemory, "soak", "memfd_create", "%v", err)
	}
	size := (skip + int64(len(fill)) + 4096) &^ 4095
	if err = unix.Ftruncate(fd, size); err == nil && len(fill) > 0 {
		_, err = unix.Pwrite(fd, fill, skip)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	}
	if err != nil {
		_ = unix.Close(fd)
		return core.ExternalMemory{}, core.Errorf(core.ErrOutOfMemory, "soak", "pwrite", "%v", err)
	}
	h, err := backendkit.NewHandle(core.HandleMemFD, uintptr(fd))
	if err != nil {
		_ = unix.Close(fd)
	}
	return core.ExternalMemory{Handle: h, Size: size, Offset: skip, Length: int64(len(fill))}, err
}

// MapFD maps the memory that a handle of [MemFD] stands for once more. Where told is
// true, the memory tells which file it is of, as what a device imports does. Its tensors
// unmap it; the handle stays the caller's.
func MapFD(x core.ExternalMemory, told bool) (core.Memory, error) {
	fd, err := x.Handle.Number()
	if err != nil {
		return core.Memory{}, err
	}
	p, err := unix.MmapPtr(int(fd), 0, nil, uintptr(x.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return core.Memory{}, core.Errorf(core.ErrOutOfMemory, "soak", "mmap", "%v", err)
	}
	m := core.Memory{
		ID: core.CPU, Handle: uintptr(p) + uintptr(x.Offset), Size: x.Length,
		Owner: core.FreeFunc(func() { _ = unix.MunmapPtr(p, uintptr(x.Size)) }),
	}
	if told {
		m.Backing = x.Backing()
	}
	return m, nil
}
