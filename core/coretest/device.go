package coretest

import (
	"context"
	"sync"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

var liveDevices = live.NewCounter("coretest.Device")

// Device is a device of a simulated [Backend].
type Device struct {
	backend *Backend
	id      core.DeviceID
	backendkit.CloseHooks

	mu       sync.Mutex
	closed   bool
	streams  int                   // number of open streams
	memories int                   // number of allocations that are not freed
	marks    int                   // number of open marks
	files    int                   // number of open files
	released map[*memory]releasing // released, but not freed because of unfinished work
	pool     pool
	handles  uintptr // the native handle of the latest stream
}

var (
	_ core.Device              = (*Device)(nil)
	_ core.PointerImporter     = (*Device)(nil)
	_ core.HostMapper          = (*Device)(nil)
	_ backendkit.CloseNotifier = (*Device)(nil)
	_ core.PeerCopier          = (*Device)(nil)
	_ core.BatchCopier         = (*Device)(nil)
	_ core.PoolController      = (*Device)(nil)
	_ core.SemaphoreCreator    = (*Device)(nil)
	_ core.HostViewer          = (*Device)(nil)
	_ core.StreamImporter      = (*Device)(nil)
)

// ID returns ext_dev:0 or ext_dev:1 or, with Options.Opaque, webgpu:0 or webgpu:1.
func (d *Device) ID() core.DeviceID { return d.id }

// Properties returns the properties of the device.
func (d *Device) Properties() core.Properties { return d.backend.properties(d.id.Index) }

// call returns an error if the call is to fail, or if the device is closed or lost.
func (d *Device) call(call string) error {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return d.backend.errorf(core.ErrClosed, call, "the device was closed")
	}
	return d.backend.call(call, d.id.Index)
}

func (d *Device) lost() bool {
	d.backend.mu.Lock()
	defer d.backend.mu.Unlock()
	return d.backend.lost[d.id.Index]
}

// do runs work. It returns an error instead if the device is lost or the work is to fail.
func (d *Device) do(work func() error) error {
	if err := d.backend.call("work", d.id.Index); err != nil {
		return err
	}
	return work()
}

// forget decrements one of the counts.
func (d *Device) forget(count *int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*count--
}

// NewStream returns a [*Stream].
func (d *Device) NewStream(ctx context.Context) (core.Stream, error) {
	if err := d.call("NewStream"); err != nil {
		return nil, err
	}
	return d.newStream(false)
}

func (d *Device) newStream(timed bool) (*Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, d.backend.errorf(core.ErrClosed, "NewStream", "the device was closed")
	}
	d.streams++
	liveStreams.Add(1)
	s := &Stream{device: d, timed: timed}
	if d.backend.options.Opaque {
		d.handles++
		s.native = d.handles
	}
	c := s.scheduler()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams = append(c.streams, s)
	return s, nil
}

// Copy enqueues a copy between two tensors of this device, or between one and a tensor of
// the host.
func (d *Device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	return d.copy(ctx, "Copy", s, dst, src, d.id)
}

// CanPeer returns nil for every device of the same backend.
func (d *Device) CanPeer(peer core.Device) error {
	if p, ok := peer.(*Device); !ok || p.backend != d.backend {
		return d.backend.errorf(core.ErrNotSupported, "CanPeer", "%T is not a device of this backend", peer)
	}
	return nil
}

// CopyPeer enqueues a copy from a tensor of another device of the same backend.
func (d *Device) CopyPeer(ctx context.Context, s core.Stream, dst, src *core.Tensor, peer core.Device) error {
	if err := d.CanPeer(peer); err != nil {
		return err
	}
	return d.copy(ctx, "CopyPeer", s, dst, src, peer.ID())
}

// CopyBatch enqueues copies, in a random order if they do not depend on each other.
func (d *Device) CopyBatch(ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
	const call = "CopyBatch"
	if len(dst) != len(src) {
		return d.backend.errorf(core.ErrInvalid, call, "there are %d tensors to copy to and %d to copy from", len(dst), len(src))
	}
	if err := d.call(call); err != nil {
		return err
	}
	for i := range dst {
		if err := d.checkCopy(call, dst[i], src[i], d.id); err != nil {
			return err
		}
	}
	return d.onStream(ctx, call, s, func(s *Stream) error {
		if backendkit.Independent(dst, src) {
			return d.enqueueCopies(ctx, s, dst, src, d.backend.scheduler.shuffled(len(dst)))
		}
		for i := range dst {
			if err := d.enqueueCopies(ctx, s, dst[i:i+1], src[i:i+1], []int{0}); err != nil {
				return err
			}
		}
		return nil
	})
}

// copy enqueues a copy. src lies on the device from or on the host.
func (d *Device) copy(ctx context.Context, call string, s core.Stream, dst, src *core.Tensor, from core.DeviceID) error {
	if err := d.call(call); err != nil {
		return err
	}
	if err := d.checkCopy(call, dst, src, from); err != nil {
		return err
	}
	return d.onStream(ctx, call, s, func(s *Stream) error {
		return d.enqueueCopies(ctx, s, []*core.Tensor{dst}, []*core.Tensor{src}, []int{0})
	})
}

// checkCopy checks the tensors of a copy.
func (d *Device) checkCopy(call string, dst, src *core.Tensor, from core.DeviceID) error {
	if _, err := backendkit.CheckCopy(dst, src); err != nil {
		return err
	}
	host := func(t *core.Tensor) bool { return t.DeviceID().Type.HostAccessible() }
	if src.DeviceID() != from && !host(src) || dst.DeviceID() != d.id && !host(dst) || host(src) && host(dst) {
		return d.backend.errorf(core.ErrDevice, call, "%v cannot copy from %v to %v", d.id, src.DeviceID(), dst.DeviceID())
	}
	return nil
}

// onStream calls f with s, or with a stream whose work it waits for if s is nil.
func (d *Device) onStream(ctx context.Context, call string, s core.Stream, f func(s *Stream) error) error {
	if d.backend.options.Submit == nil {
		return d.backend.errorf(core.ErrNotSupported, call, "the test gave no Options.Submit")
	}
	if s == nil {
		own, err := d.newStream(false)
		if err != nil {
			return err
		}
		if err := f(own); err != nil {
			_ = own.Close()
			return err
		}
		err = own.Synchronize(ctx)
		_ = own.Close() // Synchronize has returned its error
		return err
	}
	own, ok := s.(*Stream)
	if !ok || own.device != d {
		return d.backend.errorf(core.ErrDevice, call, "the stream is not of this device")
	}
	return f(own)
}

// enqueueCopies enqueues copies in the order of a list of their numbers.
func (d *Device) enqueueCopies(ctx context.Context, s *Stream, dst, src []*core.Tensor, order []int) error {
	return d.backend.options.Submit(ctx, s, dst, src, func() error {
		list := make([]func() error, len(dst))
		for i := range dst {
			var err error
			if list[i], err = plainCopy(dst[i], src[i], d.backend.locate); err != nil {
				return err
			}
		}
		return s.Enqueue(func() error {
			for _, i := range order {
				if err := list[i](); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Close closes the device if no stream is open and all memory was freed. It first waits for
// work on memory that was released.
func (d *Device) Close() error {
	d.RunCloseHooks()
	d.finishReleased()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil
	case d.streams > 0 || d.memories > 0 || d.marks > 0 || d.files > 0:
		return d.backend.errorf(core.ErrInvalid, "Close", "%d streams, %d marks and %d files are open and %d allocations are not freed", d.streams, d.marks, d.files, d.memories)
	}
	d.closed = true
	d.pool = pool{}
	d.backend.objects.drop(d)
	liveDevices.Add(-1)
	return nil
}
