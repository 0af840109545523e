package engine

import (
	"context"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/cmdqueue"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// device is an opened device.
type device struct {
	cmdqueue.Device[*queue, *object]
	driver driver.Driver
	id     driver.ID // owned
	about  driver.DeviceInfo

	// guarded by Mu
	objects map[driver.ID]*object // every MTLBuffer of open memory of the device
	*blockpool.Pool[class, *object]

	kernels kernels
}

var (
	_ core.Device              = (*device)(nil)
	_ core.PoolController      = (*device)(nil)
	_ backendkit.CloseNotifier = (*device)(nil)
	_ core.BatchCopier         = (*device)(nil)
	_ core.PeerCopier          = (*device)(nil)
	_ core.PointerImporter     = (*device)(nil)
	_ core.StreamImporter      = (*device)(nil)
	_ core.HostViewer          = (*device)(nil)
	_ core.HostMapper          = (*device)(nil)
	_ core.SemaphoreCreator    = (*device)(nil)
)

// openDevice opens a device, and takes a reference to id.
func openDevice(v driver.Driver, id driver.ID, index int32) core.Device {
	v.Retain(id)
	d := &device{driver: v, id: id, about: v.Describe(id), objects: make(map[driver.ID]*object)}
	d.kernels.made = make(map[string]driver.ID)
	d.Init(d, describe(v, id, d.about, index))
	d.Pool = blockpool.New(name, &d.Mu, d.newBlock, d.Destroy)
	return d
}

// deviceOf returns d as a device of this package.
func deviceOf(call string, d core.Device) (*device, error) {
	own, ok := d.(*device)
	if !ok {
		return nil, errorf(core.ErrDevice, call, "%T is not a device of Metal", d)
	}
	return own, nil
}

// ImportStream takes an id<MTLCommandQueue> of this device, and retains it. The stream submits its command buffers there.
// Metal starts the command buffers of a queue in their order, and orders those that use the same buffer
// (MTLHazardTrackingModeTracked). Work of the host, such as a copy to memory that only the GPU reaches, is not in the
// queue: another user of the queue waits for it by the shared event of an event ([SharedEventOf]).
func (d *device) ImportStream(ctx context.Context, native uintptr) (core.Stream, error) {
	const call = "ImportStream"
	id := driver.ID(native)
	switch {
	case native == 0:
		return nil, errorf(core.ErrInvalid, call, "the queue is nil")
	case !d.driver.Conforms(id, driver.ProtocolQueue):
		return nil, errorf(core.ErrInvalid, call, "%#x is not an id<MTLCommandQueue>", native)
	case d.driver.QueueDevice(id) != d.id:
		return nil, errorf(core.ErrInvalid, call, "the queue %#x belongs to another GPU than %v", native, d.Info.ID)
	}
	return d.OpenStream(ctx, call, func() (*queue, error) { return importQueue(d, id) })
}

// Close releases everything that belongs to the device: see [devicebase.Device.Shut].
func (d *device) Close() error {
	return d.Shut(context.Background(), func() error {
		for _, q := range d.Finished() {
			q.release()
		}
		d.DestroyStaging()
		d.kernels.release(d.driver)
		d.Drain()
		d.driver.Release(d.id)
		return nil
	})
}
