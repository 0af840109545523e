//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"context"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
)

// device is an opened device: a context and what belongs to it.
type device struct {
	devicebase.Device
	location
	context   driver.Context
	own       *queue // for copies without a stream
	gather    gather
	converter converter
	clock     devicebase.Clock[driver.Event]
	hostWork  devicebase.Fence

	// guarded by Mu
	known map[driver.Mem]*known // every cl_mem of open memory of the device
	*blockpool.Pool[class, block]
}

var (
	_ core.Device              = (*device)(nil)
	_ core.PoolController      = (*device)(nil)
	_ core.BatchCopier         = (*device)(nil)
	_ backendkit.CloseNotifier = (*device)(nil)
	_ core.PointerImporter     = (*device)(nil)
	_ core.StreamImporter      = (*device)(nil)
	_ core.SemaphoreCreator    = (*device)(nil)
	_ core.HostMapper          = (*device)(nil)
	_ core.HostViewer          = (*device)(nil)
	_ core.MemoryImporter      = (*device)(nil)
	_ core.DeviceClock         = (*device)(nil)
)

// openDevice opens a device, which owns a reference to c. It releases that if it fails.
func openDevice(l location, c driver.Context) (core.Device, error) {
	q, s := driver.CreateQueue(c, l.handle, 0)
	if err := l.check(s, "clCreateCommandQueue", "for %s", l.properties.Name); err != nil {
		driver.ReleaseContext(c)
		return nil, err
	}
	d := &device{location: l, context: c, known: make(map[driver.Mem]*known)}
	d.Init(d, l.properties)
	d.own, d.clock = newQueue(d, q, 0), d.newClock()
	d.Pool = blockpool.New(string(l.API), &d.Mu, d.makeBlock, d.destroyBlock)
	d.Bound(l.properties.TotalMemory)
	return d, nil
}

// deviceOf returns d as a device of the backend.
func (a API) deviceOf(call string, d core.Device) (*device, error) {
	own, ok := d.(*device)
	if !ok || own.API != a {
		return nil, a.errorf(core.ErrDevice, call, "%T is not a device of the backend %s", d, a)
	}
	return own, nil
}

// NewStream returns an in-order command queue.
func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	return d.newStream(ctx, "NewStream", 0)
}

func (d *device) newStream(ctx context.Context, call string, properties uint64) (core.Stream, error) {
	if err := d.Gate.Enter(ctx); err != nil {
		return nil, err
	}
	return d.addStream(call, func() (*queue, error) {
		q, s := driver.CreateQueue(d.context, d.handle, properties)
		if err := d.check(s, "clCreateCommandQueue", "a stream of %v", d.ID()); err != nil {
			return nil, err
		}
		return newQueue(d, q, properties), nil
	})
}

// addStream counts a stream that open makes, unless the device is closed.
func (d *device) addStream(call string, open func() (*queue, error)) (q *queue, err error) {
	opened, err := d.Open(call, "stream", func() error {
		q, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	q.opened = opened
	return q, nil
}

// Close releases the context: see [devicebase.Device.Shut].
func (d *device) Close() error {
	return d.Shut(context.Background(), func() error {
		_ = d.own.finish() // callers without a stream have got their errors
		d.gather.release()
		d.converter.release()
		d.Drain()
		driver.ReleaseContext(d.context)
		return nil
	})
}
