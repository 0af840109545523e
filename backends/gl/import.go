//go:build gl && linux && cgo

package gl

import (
	"context"
	"errors"
	"syscall"

	"github.com/go-gl/gl/v2.1/gl"
	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// importingDevice is a device whose driver has GL_EXT_memory_object_fd.
type importingDevice struct{ *device }

var _ core.MemoryImporter = importingDevice{}

func (importingDevice) ImportTypes() []core.HandleType {
	return []core.HandleType{core.HandleOpaqueFD}
}

// slack is how many bytes an allocation must have beyond what is imported of it:
// llvmpipe of Mesa 22.3 wants room to overrun a buffer.
const slack = 64

// ImportMemory makes a GL buffer of what Vulkan exported: it begins with the
// allocation and ends with the wanted bytes, since llvmpipe of Mesa 22.3 ignores an
// offset. Besides what its interface says, it fails with ErrNotSupported for
// another handle type, and with ErrOutOfMemory (GL_OUT_OF_MEMORY) where the driver
// wants the allocation to be larger than the buffer: 64 bytes are enough.
func (d importingDevice) ImportMemory(ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	if err := d.begin(ctx, "ImportMemory"); err != nil {
		return core.Memory{}, err
	}
	if err := d.checkExternal(m); err != nil {
		return core.Memory{}, err
	}
	b := &buffer{size: m.Offset + m.Length}
	if b.size%4 != 0 && roundUp(b.size)+slack <= m.Size {
		b.size = roundUp(b.size)
	}
	fd, err := duplicateFD(m.FD)
	if err != nil {
		return core.Memory{}, err
	}
	if err := d.importFD(b, m, fd); err != nil {
		d.discard(b)
		return core.Memory{}, err
	}
	memory, err := d.adopt("ImportMemory", b, m.Offset, m.Length, nil)
	if err == nil {
		_ = unix.Close(m.FD) // the memory needs no descriptor any more
	}
	return memory, err
}

// importFD fills b with a memory object of fd, which it owns, and a buffer on it.
// What it made by the time that it fails is in b.
func (d importingDevice) importFD(b *buffer, m core.ExternalMemory, fd int) error {
	if err := d.do("glImportMemoryFdEXT", func() {
		gl.CreateMemoryObjectsEXT(1, &b.object)
		if m.Dedicated {
			dedicated := int32(gl.TRUE)
			gl.MemoryObjectParameterivEXT(b.object, gl.DEDICATED_MEMORY_OBJECT_EXT, &dedicated)
		}
		gl.ImportMemoryFdEXT(b.object, uint64(m.Size), gl.HANDLE_TYPE_OPAQUE_FD_EXT, int32(fd))
	}); err != nil {
		_ = unix.Close(fd) // the driver takes a descriptor on success only
		return err
	}
	err := d.do("glNamedBufferStorageMemEXT", func() {
		gl.CreateBuffers(1, &b.name)
		gl.NamedBufferStorageMemEXT(b.name, int(b.size), b.object, 0)
	})
	var typed *core.Error
	if errors.As(err, &typed) && typed.Code == gl.OUT_OF_MEMORY {
		if m.Size-b.size >= slack {
			// There is room: Mesa's drivers tell only now that the descriptor is not theirs.
			typed.Err = core.ErrInvalid
			typed.Detail += ": the driver makes no memory of the descriptor, which another one may have made"
		} else {
			typed.Detail += ": export an allocation that is larger than what is used of it; 64 bytes more are enough"
		}
	}
	return err
}

// checkExternal proves what can be proved before the driver sees the descriptor.
func (d importingDevice) checkExternal(m core.ExternalMemory) error {
	fail := func(sentinel error, format string, args ...any) error {
		return core.Errorf(sentinel, "gl", "ImportMemory", format, args...)
	}
	switch {
	case m.Type != core.HandleOpaqueFD:
		return fail(core.ErrNotSupported, "Type is %v; OpenGL imports %v only", m.Type, core.HandleOpaqueFD)
	case m.DeviceUUID != d.facts.deviceUUID:
		return fail(core.ErrDevice, "DeviceUUID is %v, but this device has %v: opaque descriptors fit only between the same physical device", m.DeviceUUID, d.facts.deviceUUID)
	case m.DriverUUID != d.facts.driverUUID:
		return fail(core.ErrDevice, "DriverUUID is %v, but this driver has %v: opaque descriptors fit only between drivers of one build", m.DriverUUID, d.facts.driverUUID)
	case m.Size < 0 || m.Offset < 0 || m.Length <= 0:
		return fail(core.ErrInvalid, "Size is %d, Offset %d and Length %d bytes; they must be at least 0, 0 and 1", m.Size, m.Offset, m.Length)
	case m.Length > m.Size-m.Offset:
		return fail(core.ErrInvalid, "Offset %d + Length %d leave the allocation's Size of %d bytes", m.Offset, m.Length, m.Size)
	}
	return d.checkFD("ImportMemory", m.FD, m.Size)
}

// checkFD proves that fd is open and may be memory of size bytes. A software
// renderer's is a file, which knows its size; what stands for memory of a GPU tells
// nothing. Anything else could have the driver wait for ever: Mesa reads from it.
func (d *device) checkFD(call string, fd int, size int64) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return systemError(core.ErrInvalid, "fstat", err, "FD %d is no open descriptor", fd)
	}
	fail := func(format string, args ...any) error {
		return core.Errorf(core.ErrInvalid, "gl", call, format, args...)
	}
	switch kind := stat.Mode & unix.S_IFMT; {
	case kind == unix.S_IFIFO || kind == unix.S_IFSOCK || kind == unix.S_IFDIR,
		d.facts.software && kind != unix.S_IFREG:
		return fail("FD %d is no memory (its mode is %#o)", fd, stat.Mode)
	case kind == unix.S_IFREG && stat.Size < size:
		return fail("Size is %d bytes, but FD %d has %d", size, fd, stat.Size)
	}
	return nil
}

// duplicateFD returns a second descriptor, which the caller owns.
func duplicateFD(fd int) (int, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, systemError(core.ErrOutOfMemory, "fcntl", err, "no descriptor left; close some or raise RLIMIT_NOFILE")
	}
	return dup, nil
}

// systemError says that a system call failed with err; format and args tell what for.
func systemError(sentinel error, call string, err error, format string, args ...any) error {
	e := core.Errorf(sentinel, "gl", call, format, args...)
	e.Detail += ": " + err.Error()
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Code = int64(errno)
	}
	return e
}
