//go:build gl && linux && cgo

package gl

import (
	"context"
	"sync"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/gl/internal/ext"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

var _ core.SemaphoreCreator = (*device)(nil)

// NewSemaphore returns a [stream.Timeline], which cannot be exported. It fails with ErrNotSupported if t is
// not 0, and with ErrClosed.
func (d *device) NewSemaphore(ctx context.Context, t core.HandleType) (core.Semaphore, error) {
	if err := d.Begin(ctx, "NewSemaphore"); err != nil {
		return nil, err
	}
	if t != 0 {
		return nil, core.Errorf(core.ErrNotSupported, "gl", "NewSemaphore", "OpenGL cannot export a semaphore as %v: let the other API export and import it here", t)
	}
	return stream.NewTimeline(), nil
}

// SemaphoreImportTypes are opaque descriptors, if the driver has GL_EXT_semaphore_fd and
// GL_NV_timeline_semaphore.
func (d *device) SemaphoreImportTypes() []core.HandleType {
	if !d.Info.Capabilities.Has(core.CapImportSemaphores) {
		return nil
	}
	return []core.HandleType{core.HandleOpaqueFD}
}

// ImportSemaphore opens a timeline semaphore that Vulkan exported.
func (d *device) ImportSemaphore(ctx context.Context, x core.ExternalSemaphore) (core.Semaphore, error) {
	if err := d.EnterWith(ctx, core.CapImportSemaphores, "ImportSemaphore"); err != nil {
		return nil, err
	}
	if err := d.Hold("ImportSemaphore"); err != nil {
		return nil, err
	}
	defer d.Drop()
	by := d.importer()
	if err := by.CheckSemaphore(x); err != nil {
		return nil, err
	}
	s := &semaphore{device: d}
	if err := by.Give("ImportSemaphore", x.Handle, func(fd int) (taken bool, err error) {
		if err := by.CheckFD("ImportSemaphore", x.Handle.Type(), fd, 0); err != nil {
			return false, err
		}
		err = d.do(ctx, "glImportSemaphoreFdEXT", func() {
			s.name = ext.CreateTimelineSemaphore()
			ext.ImportSemaphoreFD(s.name, fd)
		})
		return err == nil, err // the driver takes a descriptor on success only
	}); err != nil {
		d.discard(s.destroy)
		return nil, err
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	s.opened = d.Opened("semaphore")
	return s, nil
}

// semaphore is a timeline of another API. OpenGL can wait for it and signal it, but
// not read it.
type semaphore struct {
	device *device
	opened backendkit.OpenItem
	name   uint32

	mu       sync.Mutex
	promised uint64 // the largest value that was enqueued for a signal here
	closed   bool
}

var _ core.Semaphore = (*semaphore)(nil)

// destroy deletes the semaphore on the context's thread.
func (s *semaphore) destroy() { ext.DeleteSemaphore(s.name) }

// Signal fails with ErrInvalid if value is not larger than all values signalled here, with ErrDevice for a
// stream of another device, and with ErrClosed.
func (s *semaphore) Signal(st core.Stream, value uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value <= s.promised {
		return core.Errorf(core.ErrInvalid, "gl", "Signal", "value %d must be larger than %d: a timeline only grows", value, s.promised)
	}
	err := s.enqueue("glSignalSemaphoreEXT", st, func() { ext.SignalSemaphore(s.name, value); gl.Flush() })
	if err == nil {
		s.promised = value
	}
	return err
}

// WaitOn makes all later work of the OpenGL context wait, since all streams share the context. It fails with
// ErrDevice for a stream of another device, and with ErrClosed.
func (s *semaphore) WaitOn(st core.Stream, value uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enqueue("glWaitSemaphoreEXT", st, func() { ext.WaitSemaphore(s.name, value) })
}

// enqueue puts a call on a stream. s.mu is held.
func (s *semaphore) enqueue(call string, st core.Stream, f func()) error {
	if s.closed {
		return core.Errorf(core.ErrClosed, "gl", call, "the semaphore was closed")
	}
	q, err := devicebase.StreamOf[*queue](&s.device.Device, call, st)
	if err != nil {
		return err
	}
	return q.Enqueue(func() error {
		return s.device.command(context.Background(), call, f)
	})
}

// Value fails with ErrNotSupported: OpenGL has no call for it.
func (s *semaphore) Value() (uint64, error) {
	return 0, core.Errorf(core.ErrNotSupported, "gl", "Value", "OpenGL cannot read a semaphore: ask the API that exported it")
}

// Wait fails with ErrNotSupported, as Value does.
func (s *semaphore) Wait(context.Context, uint64) error {
	return core.Errorf(core.ErrNotSupported, "gl", "Wait", "the host cannot wait for a semaphore of OpenGL: wait with the API that exported it")
}

// Close deletes the semaphore. It does not wait for work that uses it.
func (s *semaphore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.device.discard(s.destroy)
	s.opened.Close()
	return nil
}
