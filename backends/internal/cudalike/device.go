package cudalike

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
)

// device is an opened device: a reference to its primary context, and what belongs to it.
type device struct {
	devicebase.Device
	backend      *Backend
	importTypes  []core.HandleType // of memory
	exportTypes  []core.HandleType
	managed      bool // the driver has managed memory
	readOnlyHost bool // MapHost takes memory that the host cannot write
	ordinal      int32
	context      Context
	lost         atomic.Pointer[error] // why the device is lost; set once
	contextLost  atomic.Bool           // the context has failed: no work runs, and no call waits
	events       eventList
	timedEvents  eventList
	clock        devicebase.Clock[*timedEvent]
	kernels      *kernels
	ipc          ipcExports
	mapped       sync.Map // of *mappedMemory in use, by the address of the memory that was handed out

	// guarded by Mu
	*blockpool.Pool[class, block]
	queues devicebase.Lending[*queue] // for copies without a stream, and for work that needs a second stream
}

var (
	_ core.Device              = (*device)(nil)
	_ core.PoolController      = (*device)(nil)
	_ backendkit.CloseNotifier = (*device)(nil)
	_ core.StreamImporter      = (*device)(nil)
	_ core.PointerImporter     = (*device)(nil)
	_ core.MemoryExporter      = (*device)(nil)
	_ core.MemoryImporter      = (*device)(nil)
	_ core.SemaphoreImporter   = (*device)(nil)
	_ core.PeerCopier          = (*device)(nil)
	_ core.BatchCopier         = (*device)(nil)
	_ core.HostMapper          = (*device)(nil)
	_ core.HostViewer          = (*device)(nil)
	_ core.IPCEventCreator     = (*device)(nil)
	_ core.DeviceClock         = (*device)(nil)
	_ core.FileReader          = (*device)(nil)
)

// openDevice opens a device.
func (b *Backend) openDevice(ordinal int32) (core.Device, error) {
	x, p, err := b.describe(ordinal)
	if err != nil {
		return nil, err
	}
	c, s := b.driver.Retain(ordinal)
	if err := b.check(s, "the primary context of %v", p.ID); err != nil {
		return nil, err
	}
	k := b.kernelsOf(ordinal)
	if err := k.open(b, c, x); err != nil {
		b.driver.Release(ordinal)
		return nil, err
	}
	d := &device{backend: b, kernels: k, managed: x.NoManaged == "", readOnlyHost: x.NoReadOnlyHost == "", ordinal: ordinal, context: c}
	d.importTypes, d.exportTypes = handleTypes(x)
	d.events.context, d.ipc.all = c, make(map[uintptr]*ipcMemory)
	d.timedEvents.context, d.timedEvents.timed, d.clock = c, true, d.newClock()
	d.Init(d, p)
	d.Lost = func(string) error { return d.lostError() }
	d.Pool = blockpool.New(b.Name(), &d.Mu, d.makeBlock, d.freeBlock)
	d.Resize = class.sized
	d.Bound(p.TotalMemory) // device memory and pinned memory together
	b.opened.Store(d, nil)
	return d, nil
}

// deviceOf returns d as a device of this backend.
func (b *Backend) deviceOf(call string, d core.Device) (*device, error) {
	own, ok := d.(*device)
	if !ok || own.backend != b {
		return nil, b.errorf(core.ErrDevice, call, "%T is not a device of %s", d, b.API)
	}
	return own, nil
}

// checkOpen fails with ErrClosed after Close, and with ErrDeviceLost if the device is lost.
func (d *device) checkOpen(call string) error {
	err := d.Hold(call)
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

// addStream counts a stream that open makes. It fails if the device is closed.
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

// open calls f, which opens an object, and counts an object of a kind until the item is closed.
func (d *device) open(call, kind string, f func() error) (backendkit.OpenItem, error) {
	if err := d.Hold(call); err != nil {
		return backendkit.OpenItem{}, err
	}
	defer d.Drop()
	if err := f(); err != nil {
		return backendkit.OpenItem{}, err
	}
	return d.Opened(kind), nil
}

// runAndWait calls f with a stream of the device's own, and waits for the work that f enqueued. It waits even if
// ctx ends: the stream must have no work when it is given back.
func (d *device) runAndWait(ctx context.Context, f func(*queue) error) error {
	q, err := d.borrow()
	if err != nil {
		return err
	}
	defer d.giveBack(q)
	err = f(q)
	return cmp.Or(err, q.Synchronize(context.WithoutCancel(ctx)))
}

// borrow lends a stream of the device's own.
func (d *device) borrow() (*queue, error) { return d.queues.Borrow(&d.Device, d.newQueue) }

// giveBack returns a stream that was lent. It must have no unfinished work.
func (d *device) giveBack(q *queue) { d.queues.GiveBack(&d.Device, q) }

// Close releases everything that belongs to the device: see [devicebase.Device.Shut].
func (d *device) Close() error {
	return d.Shut(context.Background(), func() error {
		queues := d.queues.All(&d.Device)
		d.backend.opened.Delete(d)
		d.Drain()
		if d.contextLost.Load() {
			d.context.DropHostFuncs()
		}
		for _, q := range queues {
			_ = q.finish() // the copies without a stream have returned the errors
		}
		// Other devices that are opened may have the same context, and streams that wait.
		d.backend.waits.afterWaits(func() {
			d.freeExportedIPC()
			d.kernels.close(d.context)
			d.events.destroy()
			d.timedEvents.destroy()
			d.backend.driver.Release(d.ordinal)
		}, func(bool) {})
		return nil
	})
}
