package doctor

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/share"
)

// describe says what a device can pass and open.
func describe(d core.Device) share.PeerDevice {
	p := d.Properties()
	x := share.PeerDevice{ID: p.ID, UUID: p.UUID, DriverUUID: p.DriverUUID, PCI: p.PCI}
	if e, ok := core.As[core.MemoryExporter](d); ok {
		x.Exports = e.ExportTypes()
	}
	if i, ok := core.As[core.MemoryImporter](d); ok {
		x.Imports = i.ImportTypes()
	}
	if e, ok := core.As[core.SemaphoreExporter](d); ok {
		x.SemaphoreExports = e.SemaphoreExportTypes()
	}
	if i, ok := core.As[core.SemaphoreImporter](d); ok {
		x.SemaphoreImports = i.SemaphoreImportTypes()
	}
	_, x.IPCEvents = core.As[core.IPCEventCreator](d)
	return x
}

// device returns one of the devices by its name.
func (s *server) device(name string) (core.Device, error) {
	for _, d := range s.options.Devices {
		if d.ID().String() == name {
			return d, nil
		}
	}
	return nil, core.Errorf(core.ErrDevice, "doctor", "Serve", "device %q is not open here", name)
}

// took makes descriptors of the one that came with a message. It duplicates it, so that the
// importer owns one.
func took(fd int) ([]int, error) {
	if fd < 0 {
		return nil, nil
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, core.Errorf(core.ErrOutOfMemory, "doctor", "fcntl", "no descriptor is left: %v", err)
	}
	return []int{own}, nil
}

func drop(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// importMemory opens memory on a device, compares it with the pattern, and writes the reply.
func (s *server) importMemory(ctx context.Context, m *message, fd int) (err error) {
	d, err := s.device(m.Device)
	if err != nil {
		return err
	}
	importer, ok := core.As[core.MemoryImporter](d)
	if !ok {
		return core.Errorf(core.ErrNotSupported, "doctor", "import", "%s opens no memory of others", m.Device)
	}
	fds, err := took(fd)
	if err != nil {
		return err
	}
	x, err := core.UnmarshalExternalMemory(m.Data, fds)
	if err != nil {
		drop(fds)
		return err
	}
	defer x.Close()
	if x.Length != size {
		return core.Errorf(core.ErrInvalid, "doctor", "import", "the memory has %d bytes, and not %d", x.Length, size)
	}
	memory, err := importer.ImportMemory(ctx, x)
	if err != nil {
		return err
	}
	t, err := core.Wrap(memory, core.Spec{DType: core.TypeUint8, Shape: []int64{size}})
	if err != nil {
		memory.Free()
		return err
	}
	defer t.Close()
	if err := compare(ctx, d, t, pattern(m.Seed)); err != nil {
		return err
	}
	return fill(ctx, d, t, reply(m.Seed))
}

// fill writes bytes into a tensor of a device.
func fill(ctx context.Context, d core.Device, t *core.Tensor, b []byte) error {
	x, err := core.FromSlice(b)
	if err != nil {
		return err
	}
	defer x.Close()
	return d.Copy(ctx, nil, t, x)
}

// compare fails unless a tensor of a device has the bytes want.
func compare(ctx context.Context, d core.Device, t *core.Tensor, want []byte) error {
	b := make([]byte, len(want))
	x, err := core.FromSlice(b)
	if err != nil {
		return err
	}
	defer x.Close()
	if err := d.Copy(ctx, nil, x, t); err != nil {
		return err
	}
	return same(b, want)
}

// signal opens a semaphore and signals 1.
func (s *server) signal(ctx context.Context, m *message, fd int) (err error) {
	d, err := s.device(m.Device)
	if err != nil {
		return err
	}
	importer, ok := core.As[core.SemaphoreImporter](d)
	if !ok {
		return core.Errorf(core.ErrNotSupported, "doctor", "signal", "%s opens no semaphores of others", m.Device)
	}
	fds, err := took(fd)
	if err != nil {
		return err
	}
	x, err := core.UnmarshalExternalSemaphore(m.Data, fds)
	if err != nil {
		drop(fds)
		return err
	}
	defer x.Close()
	semaphore, err := importer.ImportSemaphore(ctx, x)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, semaphore.Close()) }()
	stream, err := d.NewStream(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	if err := semaphore.Signal(stream, 1); err != nil {
		return err
	}
	return stream.Synchronize(ctx)
}

// waitEvent opens an event and waits for it.
func (s *server) waitEvent(ctx context.Context, m *message, fd int) (err error) {
	d, err := s.device(m.Device)
	if err != nil {
		return err
	}
	creator, ok := core.As[core.IPCEventCreator](d)
	if !ok {
		return core.Errorf(core.ErrNotSupported, "doctor", "event", "%s opens no events of others", m.Device)
	}
	fds, err := took(fd)
	if err != nil {
		return err
	}
	x, err := core.UnmarshalExternalEvent(m.Data, fds)
	if err != nil {
		drop(fds)
		return err
	}
	defer x.Close()
	event, err := creator.OpenIPCEvent(ctx, x)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, event.Close()) }()
	stream, err := d.NewStream(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	if err := event.WaitOn(stream); err != nil {
		return err
	}
	return stream.Synchronize(ctx)
}
