//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"strings"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/cmdqueue"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// device is an opened device.
type device struct {
	cmdqueue.Device[*queue, *object]
	options        options
	instance       *driver.Instance
	physical       *driver.Physical
	driver         *driver.Device
	messages       uint64                             // of the validation layer, before the device was opened
	external       map[driver.Handles]driver.External // of externalHandles
	exportTypes    []core.HandleType
	importTypes    []core.HandleType
	importsForeign bool            // addresses of memory of other devices
	semaphoreType  core.HandleType // of semaphores that are shared; 0 if none are
	hostWork       devicebase.Fence

	// guarded by Mu
	objects map[uintptr]*object
	named   map[Buffer]uintptr // handles of VkBuffers that ImportBuffer has described
	*blockpool.Ledger
	plain     *pool
	visible   *pool        // plain where that is
	spare     []*resources // of closed queues
	pipelines map[gpucopy.Shader]*driver.Pipeline
	converter *driver.Pipeline // for conversions; nil before the first

	private    privateQueues
	clock      devicebase.Clock[*timestamp]
	timestamps timestamps
}

var (
	_ core.Device              = (*device)(nil)
	_ core.PoolController      = (*device)(nil)
	_ backendkit.CloseNotifier = (*device)(nil)
	_ core.BatchCopier         = (*device)(nil)
	_ core.PointerImporter     = (*device)(nil)
	_ core.HostViewer          = (*device)(nil)
	_ backendkit.ShareChecker  = (*device)(nil)
	_ core.SemaphoreCreator    = (*device)(nil)
	_ core.HostMapper          = (*device)(nil)
	_ core.MemoryExporter      = (*device)(nil)
	_ core.MemoryImporter      = (*device)(nil)
	_ core.SemaphoreExporter   = (*device)(nil)
	_ core.SemaphoreImporter   = (*device)(nil)
	_ core.DeviceClock         = (*device)(nil)
)

// openDevice opens a device, which owns i and v. It closes them if it fails.
func openDevice(i *driver.Instance, v *driver.Device, o options, index int32) (core.Device, error) {
	d := &device{
		options: o, instance: i, physical: v.Physical, driver: v,
		objects: make(map[uintptr]*object), named: make(map[Buffer]uintptr), pipelines: make(map[gpucopy.Shader]*driver.Pipeline),
		external: make(map[driver.Handles]driver.External), private: newPrivateQueues(v.Others()),
	}
	d.Ledger = blockpool.NewLedger(name, &d.Mu, d.shrink)
	d.HostStrides, d.MaxStaging = true, v.Physical.MaxBuffer/4*4
	d.Init(d, describe(v.Physical, o, index, v.Has))
	for _, h := range externalHandles {
		d.external[h] = v.Physical.ExternalBuffers(h)
	}
	d.exportTypes, d.importTypes = memoryTypes(v.Physical, v.Has)
	d.importsForeign = importsForeign(v.Physical, v.Has)
	d.semaphoreType = semaphoreType(v.Physical, v.Has)
	d.plain = &pool{device: d, kind: local}
	d.visible = d.plain
	if !d.reachesPlain() || d.findType(visible, ^uint32(0)) != d.findType(local, ^uint32(0)) {
		d.visible = &pool{device: d, kind: visible}
	}
	d.messages, _ = Messages(0)
	d.clock = d.newClock()
	return d, nil
}

// Close destroys everything that belongs to the device: see [devicebase.Device.Shut].
func (d *device) Close() error {
	return d.Shut(context.Background(), func() error {
		queues := d.Finished()
		d.drain() // a lost device has no work then
		for _, q := range queues {
			q.settle(d.LostError())
			q.resources.destroy(d.driver)
		}
		for _, l := range d.spare {
			l.destroy(d.driver)
		}
		d.timestamps.destroy(d.driver)
		for _, p := range d.pipelines {
			d.driver.DestroyPipeline(p)
		}
		if d.converter != nil {
			d.driver.DestroyPipeline(d.converter)
		}
		d.DestroyStaging()
		d.Trim()
		d.driver.Close()
		d.instance.Close()
		if count, texts := Messages(d.messages); d.options.strict && count > d.messages {
			return errorf(core.ErrInvalid, "VK_LAYER_KHRONOS_validation", "%d messages since the device was opened: %s", count-d.messages, strings.Join(texts, "; "))
		}
		return nil
	})
}
