//go:build unix

package coretest

import (
	"context"
	"maps"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// opaqueCapabilities are the capabilities that only opaque devices have.
const opaqueCapabilities = core.CapHostView | core.CapImportStream | core.CapExportMemory | core.CapImportMemory

// memoryType simulates the memory type index of Vulkan, which an import must name.
const memoryType = 3

var (
	_ core.MemoryExporter = (*Device)(nil)
	_ core.MemoryImporter = (*Device)(nil)
)

// exported maps the files of exported descriptors to the memory that they stand for. The
// process is not notified when the last descriptor of a file is closed, so forgetClosed
// removes such files from time to time.
var exported struct {
	mu   sync.Mutex
	list map[fileID]object
	left int // length of list after the last call of forgetClosed that removed files
}

// fewExports is the length of the list below which forgetClosed does nothing.
const fewExports = 64

// forgetClosed removes the files that this process has no descriptor of. It does so only when
// the list is twice as long as after the last time. exported.mu is held.
func forgetClosed() {
	if len(exported.list) < max(fewExports, 2*exported.left) {
		return
	}
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return
	}
	open := make(map[fileID]bool)
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil {
			if id, err := fileOf(fd); err == nil {
				open[id] = true
			}
		}
	}
	maps.DeleteFunc(exported.list, func(id fileID, _ object) bool { return !open[id] })
	exported.left = len(exported.list)
}

// fileID identifies an open file.
type fileID struct{ device, inode uint64 }

// fileOf returns the ID of the file that a descriptor refers to.
func fileOf(fd int) (fileID, error) {
	var s syscall.Stat_t
	if err := syscall.Fstat(fd, &s); err != nil {
		return fileID{}, err
	}
	return fileID{uint64(s.Dev), uint64(s.Ino)}, nil //nolint:unconvert // the types differ from system to system
}

// newFile opens a new file, which is the end of a pipe, and returns its descriptor and ID.
func newFile() (fd int, id fileID, err error) {
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		return -1, fileID{}, err
	}
	_ = syscall.Close(pipe[1])
	id, err = fileOf(pipe[0])
	return pipe[0], id, err
}

// ExportTypes returns core.HandleOpaqueFD for an opaque device, and nothing for others. A
// descriptor stands for memory, but nothing can be read from it.
func (d *Device) ExportTypes() []core.HandleType {
	if !d.backend.options.Opaque {
		return nil
	}
	return []core.HandleType{core.HandleOpaqueFD}
}

// ImportTypes returns the same types as ExportTypes.
func (d *Device) ImportTypes() []core.HandleType { return d.ExportTypes() }

// allocExport allocates memory that can be exported. It uses whole pages, which are never
// reused.
func (d *Device) allocExport(size int64, opts core.AllocOptions) (core.Memory, error) {
	opts.Export = 0
	if err := d.checkAlloc(size, opts); err != nil {
		return core.Memory{}, err
	}
	pages := aligned((max(size, 1) + page - 1) &^ (page - 1))
	fill(pages, poisonFresh)
	handle := d.backend.objects.add(object{
		device: d, address: addressOf(pages), size: int64(len(pages)), keep: pages,
		visible: opts.HostVisible, export: core.HandleOpaqueFD,
	})
	return d.own(handle, 0, size, func() { d.backend.objects.remove(handle) }), nil
}

// ExportMemory returns a new descriptor for the pages of b. It returns core.ErrNotSupported
// if t is not core.HandleOpaqueFD, and core.ErrInvalid if b was not allocated for export.
func (d *Device) ExportMemory(b *core.Buffer, t core.HandleType) (core.ExternalMemory, error) {
	fail := func(err error, format string, args ...any) (core.ExternalMemory, error) {
		return core.ExternalMemory{}, d.backend.errorf(err, "ExportMemory", format, args...)
	}
	if err := d.require(core.CapExportMemory, "ExportMemory"); err != nil {
		return core.ExternalMemory{}, err
	}
	switch {
	case t != core.HandleOpaqueFD:
		return fail(core.ErrNotSupported, "memory cannot be exported as %v", t)
	case b == nil:
		return fail(core.ErrInvalid, "the buffer is nil")
	}
	if err := b.Retain(); err != nil {
		return core.ExternalMemory{}, err
	}
	defer b.Release()
	m := b.Memory()
	x, ok := d.backend.objects.find(m.Handle)
	if !ok || x.device != d || x.export != t {
		return fail(core.ErrInvalid, "the memory was not allocated with AllocOptions.Export = %v on %v", t, d.id)
	}
	exported.mu.Lock()
	defer exported.mu.Unlock()
	forgetClosed()
	fd, id, err := newFile()
	if err != nil {
		return fail(core.ErrOutOfMemory, "no descriptor left: %v", err)
	}
	if exported.list == nil {
		exported.list = make(map[fileID]object)
	}
	exported.list[id] = object{address: x.address, size: x.size, keep: x.keep, visible: x.visible}
	p := d.Properties()
	h, err := backendkit.NewHandle(t, uintptr(fd))
	if err != nil {
		_ = syscall.Close(fd)
		return core.ExternalMemory{}, err
	}
	return core.ExternalMemory{
		Handle: h, Size: x.size, Offset: m.Offset, Length: m.Size, Dedicated: true,
		MemoryType: memoryType, DeviceUUID: p.UUID, DriverUUID: p.DriverUUID,
	}, nil
}

// EndExport does nothing: memory is used by no one again. It fails as ExportMemory does.
func (d *Device) EndExport(b *core.Buffer) error {
	const call = "EndExport"
	if err := d.require(core.CapExportMemory, call); err != nil {
		return err
	}
	if b == nil {
		return d.backend.errorf(core.ErrInvalid, call, "the buffer is nil")
	}
	if err := b.Retain(); err != nil {
		return err
	}
	defer b.Release()
	m := b.Memory()
	x, ok := d.backend.objects.find(m.Handle)
	switch {
	case m.Device != core.Device(d):
		return d.backend.errorf(core.ErrDevice, call, "the buffer is memory of %v, and not of %v", m.ID, d.id)
	case !ok || x.export == 0:
		return d.backend.errorf(core.ErrInvalid, call, "the memory was not allocated with AllocOptions.Export")
	}
	return nil
}

// ImportMemory imports the memory that a descriptor stands for and closes the descriptor. In
// addition to the errors of [core.MemoryImporter], it returns core.ErrInvalid if Size,
// MemoryType or Dedicated differ from those of the export.
func (d *Device) ImportMemory(ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	fail := func(err error, format string, args ...any) (core.Memory, error) {
		return core.Memory{}, d.backend.errorf(err, "ImportMemory", format, args...)
	}
	if err := d.require(core.CapImportMemory, "ImportMemory"); err != nil {
		return core.Memory{}, err
	}
	p := d.Properties()
	switch {
	case m.Handle.Type() != core.HandleOpaqueFD:
		return fail(core.ErrNotSupported, "the handle's type is %v; only %v can be imported", m.Handle.Type(), core.HandleOpaqueFD)
	case m.DeviceUUID != p.UUID || m.DriverUUID != p.DriverUUID:
		return fail(core.ErrDevice, "the memory is of device %v, driver %v", m.DeviceUUID, m.DriverUUID)
	case m.Offset < 0 || m.Length < 0 || m.Length > m.Size || m.Offset > m.Size-m.Length:
		return fail(core.ErrInvalid, "Offset %d and Length %d leave the Size of %d bytes", m.Offset, m.Length, m.Size)
	}
	fd, err := m.Handle.Number()
	if err != nil {
		return core.Memory{}, err
	}
	id, err := fileOf(int(fd))
	if err != nil {
		return fail(core.ErrInvalid, "%v: %v", m.Handle, err)
	}
	exported.mu.Lock()
	x, ok := exported.list[id]
	exported.mu.Unlock()
	if !ok || m.Size != x.size || m.MemoryType != memoryType || !m.Dedicated {
		return fail(core.ErrInvalid, "the handle does not stand for the memory that %+v describes", m)
	}
	_ = m.Close()
	x.device = d
	handle := d.backend.objects.add(x)
	return d.own(handle, m.Offset, m.Length, func() { d.backend.objects.remove(handle) }), nil
}
