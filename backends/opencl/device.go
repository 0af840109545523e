//go:build opencl && linux && cgo

package opencl

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/reaper"
	"github.com/dlx-go/dlx/backends/opencl/internal/driver"
	"github.com/dlx-go/dlx/core"
)

var liveDevices = core.NewLiveCounter("opencl.Device")

// device is an opened device: a context and what belongs to it.
type device struct {
	location
	context driver.Context
	own     *queue // for copies without a stream
	gather  gather
	core.CloseHooks
	reaper reaper.Reaper
	gate   reaper.Gate

	// hostWorkDone counts it. Go's memory model knows nothing of the driver's events,
	// so what the host did before one is ordered by this: added to before the event
	// can be done, read before it is reported.
	hostWorkDone atomic.Int64

	mu       sync.Mutex
	closed   bool
	streams  int                   // open
	memories int                   // allocations and imports that were not freed
	known    map[driver.Mem]*known // every cl_mem that the device handed out
	*blockpool.Pool[class, block]
}

var (
	_ core.Device           = (*device)(nil)
	_ core.PoolController   = (*device)(nil)
	_ core.CloseNotifier    = (*device)(nil)
	_ core.PointerImporter  = (*device)(nil)
	_ core.StreamImporter   = (*device)(nil)
	_ core.SemaphoreCreator = (*device)(nil)
	_ core.HostMapper       = (*device)(nil)
	_ core.HostViewer       = (*device)(nil)
	_ core.MemoryImporter   = (*device)(nil)
)

// openDevice takes over a reference of c, on failure too.
func openDevice(l location, c driver.Context) (core.Device, error) {
	q, s := driver.CreateQueue(c, l.handle)
	if err := check(s, "clCreateCommandQueue", "for %s", l.properties.Name); err != nil {
		driver.ReleaseContext(c)
		return nil, err
	}
	d := &device{location: l, context: c, known: make(map[driver.Mem]*known)}
	d.own = newQueue(d, q, false)
	d.Pool = blockpool.New(name, &d.mu, d.makeBlock, d.destroyBlock)
	liveDevices.Add(1)
	return d, nil
}

// deviceOf is d as a device of this package.
func deviceOf(call string, d core.Device) (*device, error) {
	own, ok := d.(*device)
	if !ok {
		return nil, errorf(core.ErrDevice, call, "%T is no device of OpenCL", d)
	}
	return own, nil
}

func (d *device) ID() core.DeviceID { return d.properties.ID }

func (d *device) Properties() core.Properties {
	p := d.properties
	p.Features = slices.Clone(p.Features)
	return p
}

// checkOpen fails with ErrClosed after Close.
func (d *device) checkOpen(call string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return closedDevice(call)
	}
	return nil
}

// NewStream returns an in-order command queue.
func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	if err := d.gate.Enter(ctx); err != nil {
		return nil, err
	}
	return d.addStream("NewStream", func() (*queue, error) {
		q, s := driver.CreateQueue(d.context, d.handle)
		if err := check(s, "clCreateCommandQueue", "a stream of %v", d.ID()); err != nil {
			return nil, err
		}
		return newQueue(d, q, false), nil
	})
}

// addStream counts a stream that open makes, unless the device is closed.
func (d *device) addStream(call string, open func() (*queue, error)) (core.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, closedDevice(call)
	}
	q, err := open()
	if err != nil {
		return nil, err
	}
	d.streams++
	liveStreams.Add(1)
	return q, nil
}

// dropStream counts a stream that was closed.
func (d *device) dropStream() {
	liveStreams.Add(-1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams--
}

// Close waits for work on memory that was released already, since nobody else
// could: that memory is not open any more. See [reaper.Gate].
func (d *device) Close() error {
	d.RunCloseHooks()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate.Await(context.Background(), &d.mu, &d.reaper, func() (int, int) { return d.streams, d.memories })
	if d.closed {
		return nil
	}
	if d.streams > 0 || d.memories > 0 {
		return errorf(core.ErrInvalid, "Close", "%d streams and %d allocations or imports are open: close them first", d.streams, d.memories)
	}
	d.closed = true
	_ = d.own.finish() // whoever copied without a stream was told
	d.gather.release()
	d.Trim()
	driver.ReleaseContext(d.context)
	liveDevices.Add(-1)
	return nil
}
