//go:build cuda && linux && cgo

package cuda

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"gorgonia.org/cu"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/reaper"
	"github.com/dlx-go/dlx/core"
)

var liveDevices = core.NewLiveCounter("cuda.Device")

// device is an opened device: a reference to its primary context and what belongs to it.
type device struct {
	properties  core.Properties
	handleTypes []core.HandleType // of memory that is exported and imported
	ordinal     cu.Device
	context     driver.Context
	lost        atomic.Pointer[error] // set once
	dead        atomic.Bool           // it is lost, since its context is over: nothing runs, and no call waits
	events      eventList
	kernels     kernels
	ipc         ipcExports
	exports     exports
	reaper      reaper.Reaper
	gate        reaper.Gate

	core.CloseHooks
	*blockpool.Pool[class, block] // guarded by mu, like all below

	mu       sync.Mutex
	closed   bool
	held     int      // what is open, except memory, and calls: see hold
	memories int      // allocations and imports that were not freed
	unused   []*queue // for copies without a stream
}

var (
	_ core.Device            = (*device)(nil)
	_ core.PoolController    = (*device)(nil)
	_ core.CloseNotifier     = (*device)(nil)
	_ core.StreamImporter    = (*device)(nil)
	_ core.PointerImporter   = (*device)(nil)
	_ core.MemoryExporter    = (*device)(nil)
	_ core.MemoryImporter    = (*device)(nil)
	_ core.SemaphoreImporter = (*device)(nil)
	_ core.PeerCopier        = (*device)(nil)
	_ core.HostMapper        = (*device)(nil)
)

// openDevice opens the device of an ordinal.
func openDevice(ordinal int) (core.Device, error) {
	p, err := describe(ordinal)
	if err != nil {
		return nil, err
	}
	handle, s := driver.Device(ordinal)
	if err := check(s, "cuDeviceGet", "device %d", ordinal); err != nil {
		return nil, err
	}
	c, s := driver.Retain(handle)
	if err := check(s, "cuDevicePrimaryCtxRetain", "%v", p.ID); err != nil {
		return nil, err
	}
	d := &device{properties: p, handleTypes: handleTypes(handle), ordinal: handle, context: c}
	d.events.context = c
	d.Pool = blockpool.New(name, &d.mu, d.makeBlock, d.freeBlock)
	liveDevices.Add(1)
	return d, nil
}

// deviceOf is d as a device of this package.
func deviceOf(call string, d core.Device) (*device, error) {
	own, ok := d.(*device)
	if !ok {
		return nil, errorf(core.ErrDevice, call, "%T is no device of CUDA", d)
	}
	return own, nil
}

func (d *device) ID() core.DeviceID { return d.properties.ID }

func (d *device) Properties() core.Properties {
	p := d.properties
	p.Features = slices.Clone(p.Features)
	return p
}

// checkOpen fails with ErrClosed after Close, and with ErrDeviceLost for a device that is.
func (d *device) checkOpen(call string) error {
	err := d.hold(call)
	if err == nil {
		d.drop()
	}
	return err
}

// NewStream returns a stream that does not wait for the legacy stream.
func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	if err := d.gate.Enter(ctx); err != nil {
		return nil, err
	}
	return d.addStream("NewStream", d.newQueue)
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
	d.held++
	liveStreams.Add(1)
	return q, nil
}

// dropStream counts a stream that was closed.
func (d *device) dropStream() {
	liveStreams.Add(-1)
	d.drop()
}

// hold fails like checkOpen, and counts something that is open on the device, or a call
// that uses it, until drop: Close does not come in between.
func (d *device) hold(call string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return closedDevice(call)
	}
	if err := d.lostError(); err != nil {
		return err
	}
	d.held++
	return nil
}

func (d *device) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held--
}

// open holds what f opens.
func (d *device) open(call string, f func() error) error {
	if err := d.hold(call); err != nil {
		return err
	}
	err := f()
	if err != nil {
		d.drop()
	}
	return err
}

// waited calls f with a stream of the device's own, and waits for what f enqueued.
func (d *device) waited(ctx context.Context, f func(*queue) error) error {
	q, err := d.borrow()
	if err != nil {
		return err
	}
	defer d.giveBack(q)
	err = f(q)
	// Not even the end of ctx may give back a stream with work on it.
	return cmp.Or(err, q.Synchronize(context.WithoutCancel(ctx)))
}

// borrow lends a stream for a copy whose caller waits for it.
func (d *device) borrow() (*queue, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, closedDevice("Copy")
	}
	if n := len(d.unused); n > 0 {
		q := d.unused[n-1]
		d.unused = d.unused[:n-1]
		return q, nil
	}
	return d.newQueue()
}

// giveBack ends a loan. The stream has no work.
func (d *device) giveBack(q *queue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unused = append(d.unused, q)
}

// Close waits for work on memory that was released already, since nobody else
// could: that memory is not open any more. See [reaper.Gate].
func (d *device) Close() error {
	d.RunCloseHooks()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate.Await(context.Background(), &d.mu, &d.reaper, func() (int, int) { return d.held, d.memories })
	if d.closed {
		return nil
	}
	if d.held > 0 || d.memories > 0 {
		return errorf(core.ErrInvalid, "Close", "%d streams, semaphores, events, buffers of OpenGL or calls and %d allocations or imports are open: close them first", d.held, d.memories)
	}
	d.closed = true
	d.Drain()
	if d.dead.Load() {
		d.context.ForgetTurns()
	}
	for _, q := range d.unused {
		_ = q.finish() // whoever copied without a stream was told
	}
	d.freeKept()
	d.kernels.unload(d.context)
	d.events.destroy()
	driver.Release(d.ordinal)
	liveDevices.Add(-1)
	return nil
}
