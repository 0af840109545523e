package backendtest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// fake is all that a simulated device can do.
type fake interface {
	core.Device
	core.PointerImporter
	core.HostMapper
	core.PeerCopier
	core.PoolController
	core.SemaphoreCreator
	backendkit.CloseNotifier
	core.HostViewer
	core.StreamImporter
	core.BatchCopier
	core.DeviceClock
	core.FileReader
}

// device is a simulated device that breaks the rule that a mutant is about: the
// hooks that are set stand in for its methods. Without hooks it keeps all rules.
type device struct {
	fake
	hooks hooks
	outer core.Device // what the suite knows: this, or what a test has put around it

	mu     sync.Mutex
	undo   []func()    // releases what a mutant keeps
	shared core.Memory // what a mutant hands out more than once

	calls atomic.Int32 // on their way, where a mutant counts them
}

// hooks take unwrapped streams and give unwrapped results.
type hooks struct {
	properties    func(*core.Properties)
	alloc         func(*device, context.Context, int64, core.AllocOptions) (core.Memory, error)
	copy          func(*device, context.Context, core.Stream, *core.Tensor, *core.Tensor) error
	copyPeer      func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor, peer core.Device) error
	copyBatch     func(d *device, ctx context.Context, s core.Stream, dst, src []*core.Tensor) error
	importPointer func(*device, uintptr, int64, core.Owner) (core.Memory, error)
	mapHost       func(*device, context.Context, *core.Buffer) (core.Memory, error)
	canMap        func(*device, core.Memory) error
	hostView      func(*device, context.Context, *core.Buffer) (core.Memory, error)
	canView       func(*device, core.Memory) error
	importStream  func(*device, context.Context, uintptr) (core.Stream, error)
	beforeClose   func(*device, func()) func()
	close         func(*device) error
	setPoolLimit  func(*device, int64)
	poolStats     func(core.PoolStats) core.PoolStats
	trimPool      func(*device)
	stream        streamHooks
	semaphore     semaphoreHooks
	clock         clockHooks
	readAt        func(f core.DeviceFile, ctx context.Context, dst *core.Tensor, offset int64) error
}

type streamHooks struct {
	device      func() core.Device
	record      func(core.Stream) (core.Event, error)
	wait        func(core.Stream, core.Event) error
	synchronize func(core.Stream, context.Context) error
	close       func(*device, *queue) error
}

type semaphoreHooks struct {
	signal func(core.Semaphore, core.Stream, uint64) error
	waitOn func(core.Semaphore, core.Stream, uint64) error
	wait   func(core.Semaphore, context.Context, uint64) error
	close  func(*timeline) error
}

var (
	_ fake                    = (*device)(nil)
	_ backendkit.ShareChecker = (*device)(nil)
)

// later is for what a mutant keeps: it is released when the case is over.
func (d *device) later(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.undo = append(d.undo, f)
}

// release closes what a mutant left open, and the simulated device.
func (d *device) release(tb testing.TB) {
	d.mu.Lock()
	undo := d.undo
	d.undo = nil
	d.mu.Unlock()
	for _, f := range undo {
		f()
	}
	var err error
	if !eventually(testTimeout, func() bool { err = d.fake.Close(); return err == nil }) {
		tb.Errorf("Close of the simulated device: %v", err)
	}
}

func (d *device) Properties() core.Properties {
	p := d.fake.Properties()
	p.Capabilities &^= core.CapExportMemory | core.CapImportMemory // which the wrapper does not offer
	if d.hooks.properties != nil {
		d.hooks.properties(&p)
	}
	return p
}

// mine makes the wrapper the device that memory belongs to.
func (d *device) mine(m core.Memory, err error) (core.Memory, error) {
	if m.Device != nil {
		m.Device = d.outer
	}
	return m, err
}

func (d *device) Alloc(ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
	o.Stream = plain(o.Stream)
	if d.hooks.alloc != nil {
		return d.mine(d.hooks.alloc(d, ctx, size, o))
	}
	return d.mine(d.fake.Alloc(ctx, size, o))
}

func (d *device) ImportPointer(p uintptr, size int64, o core.Owner) (core.Memory, error) {
	if d.hooks.importPointer != nil {
		return d.mine(d.hooks.importPointer(d, p, size, o))
	}
	return d.mine(d.fake.ImportPointer(p, size, o))
}

func (d *device) MapHost(ctx context.Context, b *core.Buffer) (core.Memory, error) {
	if d.hooks.mapHost != nil {
		return d.mine(d.hooks.mapHost(d, ctx, b))
	}
	return d.mine(d.fake.MapHost(ctx, b))
}

func (d *device) CanMap(m core.Memory) error {
	if d.hooks.canMap != nil {
		return d.hooks.canMap(d, m)
	}
	return d.fake.CanMap(m)
}

func (d *device) HostView(ctx context.Context, b *core.Buffer) (core.Memory, error) {
	if d.hooks.hostView != nil {
		return d.hooks.hostView(d, ctx, b)
	}
	return d.fake.HostView(ctx, b)
}

func (d *device) CanView(m core.Memory) error {
	if d.hooks.canView != nil {
		return d.hooks.canView(d, m)
	}
	return nil
}

func (d *device) CanExport(core.Memory, core.HandleType) error { return nil }

func (d *device) ImportStream(ctx context.Context, native uintptr) (core.Stream, error) {
	open := d.fake.ImportStream
	if h := d.hooks.importStream; h != nil {
		open = func(ctx context.Context, native uintptr) (core.Stream, error) { return h(d, ctx, native) }
	}
	s, err := open(ctx, native)
	if err != nil {
		return nil, err
	}
	return &queue{s, d}, nil
}

func (d *device) BeforeClose(f func()) (cancel func()) {
	if d.hooks.beforeClose != nil {
		return d.hooks.beforeClose(d, f)
	}
	return d.fake.BeforeClose(f)
}

func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	if d.hooks.copy != nil {
		return d.hooks.copy(d, ctx, plain(s), dst, src)
	}
	return d.fake.Copy(ctx, plain(s), dst, src)
}

func (d *device) CopyBatch(ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
	if d.hooks.copyBatch != nil {
		return d.hooks.copyBatch(d, ctx, plain(s), dst, src)
	}
	return d.fake.CopyBatch(ctx, plain(s), dst, src)
}

// plainPeer unwraps a peer.
func plainPeer(peer core.Device) core.Device {
	if p, ok := peer.(*device); ok {
		return p.fake
	}
	return peer
}

func (d *device) CanPeer(peer core.Device) error { return d.fake.CanPeer(plainPeer(peer)) }

func (d *device) CopyPeer(ctx context.Context, s core.Stream, dst, src *core.Tensor, peer core.Device) error {
	if d.hooks.copyPeer != nil {
		return d.hooks.copyPeer(d, ctx, plain(s), dst, src, plainPeer(peer))
	}
	return d.fake.CopyPeer(ctx, plain(s), dst, src, plainPeer(peer))
}

func (d *device) Close() error {
	if d.hooks.close != nil {
		return d.hooks.close(d)
	}
	return d.fake.Close()
}

func (d *device) SetPoolLimit(n int64) {
	if d.hooks.setPoolLimit != nil {
		d.hooks.setPoolLimit(d, n)
		return
	}
	d.fake.SetPoolLimit(n)
}

func (d *device) PoolStats() core.PoolStats {
	if d.hooks.poolStats != nil {
		return d.hooks.poolStats(d.fake.PoolStats())
	}
	return d.fake.PoolStats()
}

func (d *device) TrimPool() {
	if d.hooks.trimPool != nil {
		d.hooks.trimPool(d)
		return
	}
	d.fake.TrimPool()
}

// queue is a stream of a device.
type queue struct {
	core.Stream
	device *device
}

// plain unwraps a stream.
func plain(s core.Stream) core.Stream {
	if q, ok := s.(interface{ plain() core.Stream }); ok {
		return q.plain()
	}
	return s
}

func (q *queue) plain() core.Stream { return q.Stream }

func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	s, err := d.fake.NewStream(ctx)
	if err != nil {
		return nil, err
	}
	return &queue{s, d}, nil
}

func (q *queue) Device() core.Device {
	if h := q.device.hooks.stream.device; h != nil {
		return h()
	}
	return q.device.outer
}

func (q *queue) Record() (core.Event, error) {
	if h := q.device.hooks.stream.record; h != nil {
		return h(q.Stream)
	}
	return q.Stream.Record()
}

func (q *queue) Wait(e core.Event) error {
	if h := q.device.hooks.stream.wait; h != nil {
		return h(q.Stream, e)
	}
	return q.Stream.Wait(e)
}

func (q *queue) Synchronize(ctx context.Context) error {
	if h := q.device.hooks.stream.synchronize; h != nil {
		return h(q.Stream, ctx)
	}
	return q.Stream.Synchronize(ctx)
}

func (q *queue) Close() error {
	if h := q.device.hooks.stream.close; h != nil {
		return h(q.device, q)
	}
	return q.Stream.Close()
}

// timeline is a semaphore of a device.
type timeline struct {
	core.Semaphore
	device *device
}

func (d *device) NewSemaphore(ctx context.Context, t core.HandleType) (core.Semaphore, error) {
	s, err := d.fake.NewSemaphore(ctx, t)
	if err != nil {
		return nil, err
	}
	return &timeline{Semaphore: s, device: d}, nil
}

func (t *timeline) Signal(s core.Stream, v uint64) error {
	if h := t.device.hooks.semaphore.signal; h != nil {
		return h(t.Semaphore, plain(s), v)
	}
	return t.Semaphore.Signal(plain(s), v)
}

func (t *timeline) WaitOn(s core.Stream, v uint64) error {
	if h := t.device.hooks.semaphore.waitOn; h != nil {
		return h(t.Semaphore, plain(s), v)
	}
	return t.Semaphore.WaitOn(plain(s), v)
}

func (t *timeline) Wait(ctx context.Context, v uint64) error {
	if h := t.device.hooks.semaphore.wait; h != nil {
		return h(t.Semaphore, ctx, v)
	}
	return t.Semaphore.Wait(ctx, v)
}

func (t *timeline) Close() error {
	if h := t.device.hooks.semaphore.close; h != nil {
		return h(t)
	}
	return t.Semaphore.Close()
}
