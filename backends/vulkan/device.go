//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/gather"
	"github.com/dlx-go/dlx/backends/internal/reaper"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

var liveDevices = core.NewLiveCounter("vulkan.Device")

// device is an opened device.
type device struct {
	properties  core.Properties
	options     options
	instance    *driver.Instance
	physical    *driver.Physical
	driver      *driver.Device
	messages    uint64 // of the validation layer, before the device was opened
	exportTypes []core.HandleType
	importTypes []core.HandleType
	core.CloseHooks
	reaper reaper.Reaper
	gate   reaper.Gate

	// hostWork orders what the host did in a stream before whoever sees its event:
	// Go's memory model knows nothing of timelines. It is added to before a timeline
	// moves on, and read after.
	hostWork atomic.Int64
	lost     atomic.Pointer[error] // set once

	mu       sync.Mutex
	idle     sync.Cond // lent has become less
	closed   bool
	streams  int // open, and semaphores
	memories int // allocations and imports that were not freed
	objects  map[uintptr]*object
	*blockpool.Ledger
	plain     *pool
	visible   *pool     // plain where that is
	unused    []*queue  // for copies without a stream
	lanes     []*lane   // of closed queues
	staging   []*object // for copies between the host and memory that it does not reach
	lent      int       // queues and pieces of staging memory that are in use
	pipelines map[gather.Shader]*driver.Pipeline
}

var (
	_ core.Device            = (*device)(nil)
	_ core.PoolController    = (*device)(nil)
	_ core.CloseNotifier     = (*device)(nil)
	_ core.PointerImporter   = (*device)(nil)
	_ core.HostViewer        = (*device)(nil)
	_ core.SemaphoreCreator  = (*device)(nil)
	_ core.HostMapper        = (*device)(nil)
	_ core.MemoryExporter    = (*device)(nil)
	_ core.MemoryImporter    = (*device)(nil)
	_ core.SemaphoreExporter = (*device)(nil)
	_ core.SemaphoreImporter = (*device)(nil)
)

// openDevice takes over i and v, on failure too.
func openDevice(i *driver.Instance, v *driver.Device, o options, index int32) (core.Device, error) {
	d := &device{
		options: o, instance: i, physical: v.Physical, driver: v,
		objects: make(map[uintptr]*object), pipelines: make(map[gather.Shader]*driver.Pipeline),
	}
	d.idle.L = &d.mu
	d.Ledger = blockpool.NewLedger(name, &d.mu, d.shrink)
	d.properties = describe(v.Physical, o, index, v.Has)
	d.exportTypes, d.importTypes = memoryTypes(v.Physical, v.Has)
	d.plain = &pool{device: d, kind: local}
	d.visible = d.plain
	if !d.reachesPlain() || d.findType(visible, ^uint32(0)) != d.findType(local, ^uint32(0)) {
		d.visible = &pool{device: d, kind: visible}
	}
	d.messages, _ = Messages(0)
	liveDevices.Add(1)
	return d, nil
}

func (d *device) ID() core.DeviceID { return d.properties.ID }

func (d *device) Properties() core.Properties {
	p := d.properties
	p.Features = slices.Clone(p.Features)
	return p
}

// noteLoss remembers for good that the device is lost, if err says so. It returns err.
func (d *device) noteLoss(err error) error {
	if err != nil && errors.Is(err, core.ErrDeviceLost) {
		d.lost.CompareAndSwap(nil, &err)
	}
	return err
}

// lostError is the error that said the device is lost; nil if none did.
func (d *device) lostError() error {
	if e := d.lost.Load(); e != nil {
		return *e
	}
	return nil
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

// NewStream makes a timeline and a pool of commands.
func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	if err := d.gate.Enter(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, closedDevice("NewStream")
	}
	q, err := newQueue(d)
	if err != nil {
		return nil, d.noteLoss(err)
	}
	d.streams++
	liveStreams.Add(1)
	return q, nil
}

// dropStream counts a stream that was closed, and keeps its lane for others.
func (d *device) dropStream(l *lane, value uint64) {
	liveStreams.Add(-1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams--
	l.value = value
	d.lanes = append(d.lanes, l)
}

// borrow lends a queue for a copy whose caller waits for it.
func (d *device) borrow() (*queue, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, closedDevice("Copy")
	}
	if n := len(d.unused); n > 0 {
		q := d.unused[n-1]
		d.unused = d.unused[:n-1]
		d.lent++
		return q, nil
	}
	q, err := newQueue(d)
	if err == nil {
		d.lent++
	}
	return q, err
}

// giveBack ends a loan. The queue has no work.
func (d *device) giveBack(q *queue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unused = append(d.unused, q)
	d.lent--
	d.idle.Broadcast()
}

// queueOf is s as a stream of this device.
func (d *device) queueOf(call string, s core.Stream) (*queue, error) {
	q, ok := s.(*queue)
	if !ok || q.device != d {
		return nil, errorf(core.ErrDevice, call, "the stream belongs to another device")
	}
	return q, nil
}

// Close waits for work on memory that was released already, since nobody else
// could: that memory is not open any more. See [reaper.Gate].
func (d *device) Close() error {
	d.RunCloseHooks()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate.Await(context.Background(), &d.mu, &d.reaper, func() (int, int) { return d.streams, d.memories })
	for d.streams == 0 && d.memories == 0 && d.lent > 0 {
		d.idle.Wait()
	}
	if d.closed {
		return nil
	}
	if d.streams > 0 || d.memories > 0 {
		return errorf(core.ErrInvalid, "Close", "%d streams and semaphores and %d allocations or imports are open: close them first", d.streams, d.memories)
	}
	d.closed = true
	_ = d.driver.WaitIdle() // a lost device has no work
	for _, q := range d.unused {
		q.settle(d.lostError())
		q.lane.destroy(d.driver)
	}
	for _, l := range d.lanes {
		l.destroy(d.driver)
	}
	for _, p := range d.pipelines {
		d.driver.DestroyPipeline(p)
	}
	for _, o := range d.staging {
		d.destroy(o)
	}
	d.Trim()
	d.driver.Close()
	d.instance.Close()
	liveDevices.Add(-1)
	if count, texts := Messages(d.messages); d.options.strict && count > d.messages {
		return errorf(core.ErrInvalid, "VK_LAYER_KHRONOS_validation", "%d messages since the device was opened: %s", count-d.messages, strings.Join(texts, "; "))
	}
	return nil
}
