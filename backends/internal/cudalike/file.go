package cudalike

import (
	"cmp"
	"context"
	"math"
	"os"
	"sync"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Files is a library that reads files straight into memory of devices. Its methods return errors of package core.
type Files interface {
	// Check returns nil if the system is set up for such reads, as far as it says without the library. Otherwise it
	// returns core.ErrNotSupported with the reason.
	Check() error

	// Do calls f while a context is current on the thread of f. If it fails, f was not called.
	Do(c Context, f func()) Status

	// Open prepares an open file for reads. It opens the library when it is called first. Open and Read are called
	// by Do.
	Open(fd int) (File, error)
}

// File is a file that a library of [Files] reads. It is safe for concurrent use.
type File interface {
	// Read reads n bytes of the file at from to base+to, where base is the begin of an allocation of the context's
	// device, and waits until they are there.
	Read(base uintptr, to, from, n int64) error
	// Close waits for Read. It leaves the file open, and can be called in any context.
	Close() error
}

// CanReadFiles asks the library of [Facts], if there is one.
func (d *device) CanReadFiles() error {
	if d.backend.Files == nil {
		return d.Errorf(core.ErrNotSupported, "CanReadFiles", "dlx knows no library that reads files into memory of %s", d.backend.API)
	}
	return d.backend.Files.Check()
}

// OpenFile opens the library whatever CanReadFiles returns.
func (d *device) OpenFile(ctx context.Context, file *os.File) (core.DeviceFile, error) {
	const call = "OpenFile"
	if err := d.Gate.Enter(ctx); err != nil {
		return nil, err
	}
	if d.backend.Files == nil {
		return nil, d.CanReadFiles()
	}
	if file == nil {
		return nil, d.Errorf(core.ErrInvalid, call, "the file is nil")
	}
	x := &deviceFile{device: d, of: file}
	opened, err := d.open(call, "file", func() error {
		fd := file.Fd()
		if fd > math.MaxInt32 { // ^0: it was closed
			return d.Errorf(core.ErrClosed, call, "the file %s was closed", file.Name())
		}
		return d.inFiles(func() (err error) {
			x.file, err = d.backend.Files.Open(int(fd))
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	x.opened = opened
	return x, nil
}

// inFiles calls f in the device's context. If f fails since the device is lost, inFiles says so.
func (d *device) inFiles(f func() error) error {
	var err error
	s := d.backend.Files.Do(d.context, func() { err = f() })
	if s.OK() && err != nil {
		_, s = d.context.FreeMemory() // any call that has no effect
		if s.Kind != DeviceLost {
			s = Status{}
		}
	}
	return cmp.Or(d.check(s, "a read of a file"), err)
}

// deviceFile is a file that the device reads.
type deviceFile struct {
	device *device
	of     *os.File // the caller's, which stays reachable
	file   File
	opened backendkit.OpenItem
	once   sync.Once // closes
}

var _ core.DeviceFile = (*deviceFile)(nil)

// ReadAt reads into device memory only: pinned and managed memory is the host's, too.
func (f *deviceFile) ReadAt(ctx context.Context, dst *core.Tensor, offset int64) error {
	d := f.device
	if err := backendkit.CheckFileRead(d.ID(), dst, offset); err != nil {
		return err
	}
	if err := d.Hold("ReadAt"); err != nil {
		return err
	}
	defer d.Drop()
	uses, err := stream.Acquire(ctx, []*core.Tensor{dst}, nil)
	if err != nil {
		return err
	}
	defer uses.Release()
	b, err := dst.Buffer()
	if err != nil {
		return err
	}
	if dst.IsEmpty() {
		return nil
	}
	m := b.Memory()
	if m.Device != nil && m.Device != d {
		return d.Errorf(core.ErrDevice, "ReadAt", "%v belongs to %v as it was opened another time: call ReadAt of that core.Device", dst, d.ID())
	}
	base, at := m.Handle, dst.Offset()
	// Libraries look up the allocation by its begin. Of mapped memory the driver knows only the reserved addresses.
	a, s := d.context.Pointer(base + uintptr(at))
	if err := d.check(s, "the memory at %#x", base+uintptr(at)); err != nil {
		return err
	}
	if a.Context != 0 && a.Size != 0 {
		base, at = a.Start, int64(base+uintptr(at)-a.Start)
	}
	return d.inFiles(func() error { return f.file.Read(base, at, offset, dst.NumBytes()) })
}

// Close releases the file. The device stays open until then.
func (f *deviceFile) Close() (err error) {
	f.once.Do(func() {
		err = f.file.Close()
		f.opened.Close()
	})
	return err
}
