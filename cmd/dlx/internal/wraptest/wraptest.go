// Package wraptest wraps the devices of a backend for tests of the command.
package wraptest

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// Backend makes the devices of another one less able: they share memory with
// nobody, since they offer no optional interface, and they may damage what they
// copy from the host.
type Backend struct {
	core.Backend
	// FromHost, if not nil, gives what is copied instead of a tensor of the host;
	// it is closed after the copy.
	FromHost func(src *core.Tensor) (*core.Tensor, error)
	// ToHost, if not nil, is the error of copies to the host.
	ToHost error
}

var _ core.Backend = Backend{}

// Open opens a device.
func (b Backend) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	d, err := b.Backend.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	return &device{d, b}, nil
}

// device stands before another one: its streams and memory are its own.
type device struct {
	core.Device
	backend Backend
}

func (d *device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	m, err := d.Device.Alloc(ctx, size, opts)
	m.Device = d
	return m, err
}

func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	s, err := d.Device.NewStream(ctx)
	if err != nil {
		return nil, err
	}
	return stream{s, d}, nil
}

func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	if own, ok := s.(stream); ok {
		s = own.Stream
	}
	if d.backend.ToHost != nil && dst.DeviceID() == core.CPU {
		return d.backend.ToHost
	}
	if d.backend.FromHost != nil && src.DeviceID() == core.CPU {
		other, err := d.backend.FromHost(src)
		if err != nil {
			return err
		}
		defer other.Close()
		src = other
	}
	return d.Device.Copy(ctx, s, dst, src)
}

// stream is one of the device that stands before its own.
type stream struct {
	core.Stream
	device *device
}

func (s stream) Device() core.Device { return s.device }
