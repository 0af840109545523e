package cudalike

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/core"
)

// device is an opened device: a reference to its primary context and what belongs to it.
type device struct {
	shell.Device
	backend     *Backend
	handleTypes []core.HandleType // of memory that is exported and imported
	managed     bool              // it has managed memory
	ordinal     int32
	context     Context
	lost        atomic.Pointer[error] // set once
	dead        atomic.Bool           // it is lost, since its context is over: nothing runs, and no call waits
	events      eventList
	kernels     kernels
	ipc         ipcExports
	exports     exports

	// guarded by Mu
	*blockpool.Pool[class, block]
	queues shell.Lending[*queue] // for copies without a stream, and for work beside a stream
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
func (b *Backend) openDevice(ordinal int32) (core.Device, error) {
	x, p, err := b.describe(ordinal)
	if err != nil {
		return nil, err
	}
	c, s := b.driver.Retain(ordinal)
	if err := b.check(s, "%v", p.ID); err != nil {
		return nil, err
	}
	d := &device{backend: b, handleTypes: b.handleTypes(x), managed: x.NoManaged == "", ordinal: ordinal, context: c}
	d.events.context = c
	d.Init(d, p, b.live)
	d.Pool = blockpool.New(b.Name(), &d.Mu, d.makeBlock, d.freeBlock)
	return d, nil
}

// deviceOf is d as a device of this backend.
func (b *Backend) deviceOf(call string, d core.Device) (*device, error) {
	own, ok := d.(*device)
	if !ok || own.backend != b {
		return nil, b.errorf(core.ErrDevice, call, "%T is not a device of %s", d, b.API)
	}
	return own, nil
}

// checkOpen fails with ErrClosed after Close, and with ErrDeviceLost for a device that is.
func (d *device) checkOpen(call string) error {
	err := d.hold(call)
	if err == nil {
		d.Drop()
	}
	return err
}

// NewStream returns a stream that does not wait for the legacy stream.
func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	if err := d.Gate.Enter(ctx); err != nil {
		return nil, err
	}
	return d.addStream("NewStream", d.newQueue)
}

// addStream counts a stream that open makes, unless the device is closed.
func (d *device) addStream(call string, open func() (*queue, error)) (q *queue, err error) {
	err = d.Open(call, func() error {
		q, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	d.backend.streams.Add(1)
	return q, nil
}

// hold fails like checkOpen, and counts something that is open on the device, or a call
// that uses it, until Drop: Close does not come in between.
func (d *device) hold(call string) error { return d.Open(call, d.lostError) }

// open holds what f opens.
func (d *device) open(call string, f func() error) error {
	if err := d.hold(call); err != nil {
		return err
	}
	err := f()
	if err != nil {
		d.Drop()
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
func (d *device) borrow() (*queue, error) { return d.queues.Borrow(&d.Device, d.newQueue) }

// giveBack ends a loan. The stream has no work.
func (d *device) giveBack(q *queue) { d.queues.GiveBack(&d.Device, q) }

// Close gives everything back to the driver: see [shell.Device.Shut].
func (d *device) Close() error {
	return d.Shut(context.Background(), "streams, semaphores, events, buffers of OpenGL or calls", func() error {
		queues := d.queues.All(&d.Device)
		d.Drain()
		if d.dead.Load() {
			d.context.ForgetTurns()
		}
		for _, q := range queues {
			_ = q.finish() // whoever copied without a stream was told
		}
		d.freeKept()
		d.kernels.unload(d.context)
		d.events.destroy()
		d.backend.driver.Release(d.ordinal)
		return nil
	})
}
