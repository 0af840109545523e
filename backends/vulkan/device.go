//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/gather"
	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

var live = shell.NewCounters(name)

// device is an opened device.
type device struct {
	shell.Device
	options        options
	instance       *driver.Instance
	physical       *driver.Physical
	driver         *driver.Device
	messages       uint64 // of the validation layer, before the device was opened
	exportTypes    []core.HandleType
	importTypes    []core.HandleType
	importsForeign bool            // addresses of memory of other devices
	semaphoreType  core.HandleType // of semaphores that are shared; 0 if none are
	hostWork       shell.Fence
	lost           atomic.Pointer[error] // set once

	// guarded by Mu
	objects map[uintptr]*object
	named   map[Buffer]uintptr // handles of VkBuffers that ImportBuffer has described
	*blockpool.Ledger
	plain     *pool
	visible   *pool                 // plain where that is
	queues    shell.Lending[*queue] // for copies without a stream
	spare     []*resources          // of closed queues
	staging   []*object             // for copies between the host and memory that it does not reach
	lent      int                   // pieces of staging memory that are in use
	idle      sync.Cond             // signalled when lent decreases
	pipelines map[gather.Shader]*driver.Pipeline

	private    privateQueues
	clock      shell.Clock[*timestamp]
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
		objects: make(map[uintptr]*object), named: make(map[Buffer]uintptr), pipelines: make(map[gather.Shader]*driver.Pipeline),
		private: newPrivateQueues(v.Others()),
	}
	d.idle.L = &d.Mu
	d.Ledger = blockpool.NewLedger(name, &d.Mu, d.shrink)
	d.Init(d, describe(v.Physical, o, index, v.Has), live)
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

// noteLoss records that the device is lost, if err says so. It returns err.
func (d *device) noteLoss(err error) error {
	if err != nil && errors.Is(err, core.ErrDeviceLost) {
		d.lost.CompareAndSwap(nil, &err)
	}
	return err
}

// lostError returns the error that reported the loss of the device, or nil.
func (d *device) lostError() error {
	if e := d.lost.Load(); e != nil {
		return *e
	}
	return nil
}

// NewStream makes a timeline and a pool of commands.
func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	if err := d.Gate.Enter(ctx); err != nil {
		return nil, err
	}
	var q *queue
	opened, err := d.Open("NewStream", "stream", func() (err error) {
		q, err = newQueue(d)
		return d.noteLoss(err)
	})
	if err != nil {
		return nil, err
	}
	q.opened = opened
	liveStreams.Add(1)
	return q, nil
}

// dropStream counts a stream that was closed, and keeps its resources for other streams.
func (d *device) dropStream(opened backendkit.OpenItem, l *resources, value uint64) {
	liveStreams.Add(-1)
	d.Mu.Lock()
	defer d.Mu.Unlock()
	opened.Close()
	l.value = value
	d.spare = append(d.spare, l)
}

// Close destroys everything that belongs to the device: see [shell.Device.Shut].
func (d *device) Close() error {
	return d.Shut(context.Background(), func() error {
		queues := d.queues.All(&d.Device)
		for d.lent > 0 {
			d.idle.Wait()
		}
		d.drain() // a lost device has no work then
		for _, q := range queues {
			q.settle(d.lostError())
			q.resources.destroy(d.driver)
		}
		for _, l := range d.spare {
			l.destroy(d.driver)
		}
		d.timestamps.destroy(d.driver)
		for _, p := range d.pipelines {
			d.driver.DestroyPipeline(p)
		}
		for _, o := range d.staging {
			d.destroy(o)
		}
		d.Trim()
		d.driver.Close()
		d.instance.Close()
		if count, texts := Messages(d.messages); d.options.strict && count > d.messages {
			return errorf(core.ErrInvalid, "VK_LAYER_KHRONOS_validation", "%d messages since the device was opened: %s", count-d.messages, strings.Join(texts, "; "))
		}
		return nil
	})
}
