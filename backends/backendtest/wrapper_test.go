package backendtest

import (
	"context"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
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
	core.Converter
	core.FileReader
}

// device is a simulated device, and what a mutant keeps.
type device struct {
	fake
	hooks hooks
	outer core.Device // what the suite knows: a wrapper, or what a test has put around it

	mu     sync.Mutex
	undo   []func()    // releases what a mutant keeps
	shared core.Memory // what a mutant hands out more than once

	calls atomic.Int32 // on their way, where a mutant counts them
}

// memoryHook stands in for a method that gives memory for a buffer.
type memoryHook = func(*device, context.Context, *core.Buffer) (core.Memory, error)

// copyHook stands in for Copy.
type copyHook = func(*device, context.Context, core.Stream, *core.Tensor, *core.Tensor) error

// hooks stand in for methods. They take unwrapped streams and give unwrapped results. A device without hooks keeps
// all rules.
type hooks struct {
	options       coretest.Options // of the simulated device
	properties    func(*core.Properties)
	alloc         func(*device, context.Context, int64, core.AllocOptions) (core.Memory, error)
	copy          copyHook
	copyPeer      func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor, peer core.Device) error
	copyBatch     func(d *device, ctx context.Context, s core.Stream, dst, src []*core.Tensor) error
	convert       func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error
	importPointer func(*device, uintptr, int64, core.Owner) (core.Memory, error)
	mapHost       memoryHook
	canMap        func(*device, core.Memory) error
	hostView      memoryHook
	canView       func(*device, core.Memory) error
	importStream  func(*device, context.Context, uintptr) (core.Stream, error)
	beforeClose   func(*device, func()) func()
	close         func(*device) error
	setPoolLimit  func(*device, int64)
	poolStats     func(*device) core.PoolStats
	trimPool      func(*device)
	stream        streamHooks
	semaphore     semaphoreHooks
	clock         clockHooks
	readAt        func(f core.DeviceFile, ctx context.Context, dst *core.Tensor, offset int64) error
}

type streamHooks struct {
	device      func(*device) core.Device
	record      func(core.Stream) (core.Event, error)
	wait        func(core.Stream, core.Event) error
	synchronize func(core.Stream, context.Context) error
	close       func(*device, core.Stream) error
}

type semaphoreHooks struct {
	signal func(core.Semaphore, core.Stream, uint64) error
	waitOn func(core.Semaphore, core.Stream, uint64) error
	wait   func(core.Semaphore, context.Context, uint64) error
	close  func(core.Semaphore) error
}

type clockHooks struct {
	mark  func(*device, core.Stream) (core.Mark, error)
	since func(m, earlier core.Mark) (time.Duration, error)
	close func(*device, core.Mark) error
}

// orElse sets a hook that is nil.
func orElse[F any](hook *F, otherwise F) {
	if reflect.ValueOf(hook).Elem().IsNil() {
		*hook = otherwise
	}
}

// wrap puts a wrapper with hooks around a simulated device.
func wrap(d core.Device, h hooks) *device {
	orElse(&h.properties, func(*core.Properties) {})
	orElse(&h.alloc, (*device).Alloc)
	orElse(&h.copy, (*device).Copy)
	orElse(&h.copyPeer, (*device).CopyPeer)
	orElse(&h.copyBatch, (*device).CopyBatch)
	orElse(&h.convert, (*device).ConvertOn)
	orElse(&h.importPointer, (*device).ImportPointer)
	orElse(&h.mapHost, (*device).MapHost)
	orElse(&h.canMap, (*device).CanMap)
	orElse(&h.hostView, (*device).HostView)
	orElse(&h.canView, func(*device, core.Memory) error { return nil })
	orElse(&h.importStream, (*device).ImportStream)
	orElse(&h.beforeClose, (*device).BeforeClose)
	orElse(&h.close, (*device).Close)
	orElse(&h.setPoolLimit, (*device).SetPoolLimit)
	orElse(&h.poolStats, (*device).PoolStats)
	orElse(&h.trimPool, (*device).TrimPool)
	orElse(&h.stream.device, func(d *device) core.Device { return d.outer })
	orElse(&h.stream.record, core.Stream.Record)
	orElse(&h.stream.wait, core.Stream.Wait)
	orElse(&h.stream.synchronize, core.Stream.Synchronize)
	orElse(&h.stream.close, func(_ *device, s core.Stream) error { return s.Close() })
	orElse(&h.semaphore.signal, core.Semaphore.Signal)
	orElse(&h.semaphore.waitOn, core.Semaphore.WaitOn)
	orElse(&h.semaphore.wait, core.Semaphore.Wait)
	orElse(&h.semaphore.close, core.Semaphore.Close)
	orElse(&h.clock.mark, (*device).Mark)
	orElse(&h.clock.since, core.Mark.Since)
	orElse(&h.clock.close, func(_ *device, m core.Mark) error { return m.Close() })
	orElse(&h.readAt, core.DeviceFile.ReadAt)
	w := &device{fake: d.(fake), hooks: h}
	w.outer = &wrapper{w}
	return w
}

// wrapped opens the two devices of a simulated backend behind hooks. The peer has none.
func wrapped(h hooks) (first, second func(testing.TB) *device) {
	one, two := fakes(h.options)
	return func(tb testing.TB) *device { return wrap(one(tb), h) },
		func(tb testing.TB) *device { return wrap(two(tb), hooks{}) }
}

// opens returns a function that opens a wrapped device and returns what around makes of it. The devices are released when
// the test ends.
func opens(t *testing.T, h hooks, around func(*device) core.Device) func(testing.TB) core.Device {
	first, _ := wrapped(h)
	return keeps(t, first, around)
}

// keeps is opens for devices that open opens.
func keeps(t *testing.T, open func(testing.TB) *device, around func(*device) core.Device) func(testing.TB) core.Device {
	return func(tb testing.TB) core.Device {
		d := open(tb)
		t.Cleanup(func() { d.release(t) })
		return around(d)
	}
}

// outer is for devices that nothing is put around.
func outer(d *device) core.Device { return d.outer }

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
	if !eventually(testTimeout, func() bool { err = d.Close(); return err == nil }) {
		tb.Errorf("Close of the simulated device: %v", err)
	}
}

// wrapper is a device as the suite knows it. Its methods call the hooks.
type wrapper struct{ *device }

var (
	_ fake                    = (*wrapper)(nil)
	_ backendkit.ShareChecker = (*wrapper)(nil)
)

func (w *wrapper) Properties() core.Properties {
	p := w.fake.Properties()
	p.Capabilities &^= core.CapExportMemory | core.CapImportMemory // which the wrapper does not offer
	w.hooks.properties(&p)
	return p
}

// mine makes the wrapper the device that memory belongs to.
func (w *wrapper) mine(m core.Memory, err error) (core.Memory, error) {
	if m.Device != nil {
		m.Device = w.outer
	}
	return m, err
}

func (w *wrapper) Alloc(ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
	o.Stream = plain(o.Stream)
	return w.mine(w.hooks.alloc(w.device, ctx, size, o))
}

func (w *wrapper) ImportPointer(p uintptr, size int64, o core.Owner) (core.Memory, error) {
	return w.mine(w.hooks.importPointer(w.device, p, size, o))
}

func (w *wrapper) MapHost(ctx context.Context, b *core.Buffer) (core.Memory, error) {
	return w.mine(w.hooks.mapHost(w.device, ctx, b))
}

func (w *wrapper) CanMap(m core.Memory) error { return w.hooks.canMap(w.device, m) }

func (w *wrapper) HostView(ctx context.Context, b *core.Buffer) (core.Memory, error) {
	return w.hooks.hostView(w.device, ctx, b)
}

func (w *wrapper) CanView(m core.Memory) error { return w.hooks.canView(w.device, m) }

func (w *wrapper) CanExport(core.Memory, core.HandleType) error { return nil }

func (w *wrapper) BeforeClose(f func()) (cancel func()) { return w.hooks.beforeClose(w.device, f) }

func (w *wrapper) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	return w.hooks.copy(w.device, ctx, plain(s), dst, src)
}

func (w *wrapper) CopyBatch(ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
	return w.hooks.copyBatch(w.device, ctx, plain(s), dst, src)
}

// plainPeer unwraps a peer.
func plainPeer(peer core.Device) core.Device {
	if p, ok := peer.(*wrapper); ok {
		return p.fake
	}
	return peer
}

func (w *wrapper) CanPeer(peer core.Device) error { return w.fake.CanPeer(plainPeer(peer)) }

func (w *wrapper) CopyPeer(ctx context.Context, s core.Stream, dst, src *core.Tensor, peer core.Device) error {
	return w.hooks.copyPeer(w.device, ctx, plain(s), dst, src, plainPeer(peer))
}

func (w *wrapper) Close() error { return w.hooks.close(w.device) }

func (w *wrapper) SetPoolLimit(n int64) { w.hooks.setPoolLimit(w.device, n) }

func (w *wrapper) PoolStats() core.PoolStats { return w.hooks.poolStats(w.device) }

func (w *wrapper) TrimPool() { w.hooks.trimPool(w.device) }

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

// queue wraps a stream.
func (w *wrapper) queue(s core.Stream, err error) (core.Stream, error) {
	if err != nil {
		return nil, err
	}
	return &queue{s, w.device}, nil
}

func (w *wrapper) NewStream(ctx context.Context) (core.Stream, error) {
	return w.queue(w.fake.NewStream(ctx))
}

func (w *wrapper) ImportStream(ctx context.Context, native uintptr) (core.Stream, error) {
	return w.queue(w.hooks.importStream(w.device, ctx, native))
}

func (w *wrapper) ConvertOn(ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error {
	return w.hooks.convert(w.device, ctx, plain(s), dst, src, scaling)
}

func (w *wrapper) NewTimedStream(ctx context.Context) (core.Stream, error) {
	return w.queue(w.fake.NewTimedStream(ctx))
}

func (q *queue) Device() core.Device { return q.device.hooks.stream.device(q.device) }

func (q *queue) Record() (core.Event, error) { return q.device.hooks.stream.record(q.Stream) }

func (q *queue) Wait(e core.Event) error { return q.device.hooks.stream.wait(q.Stream, e) }

func (q *queue) Synchronize(ctx context.Context) error {
	return q.device.hooks.stream.synchronize(q.Stream, ctx)
}

func (q *queue) Close() error { return q.device.hooks.stream.close(q.device, q.Stream) }

// timeline is a semaphore of a device.
type timeline struct {
	core.Semaphore
	hooks semaphoreHooks
}

func (w *wrapper) NewSemaphore(ctx context.Context, t core.HandleType) (core.Semaphore, error) {
	s, err := w.fake.NewSemaphore(ctx, t)
	if err != nil {
		return nil, err
	}
	return &timeline{s, w.hooks.semaphore}, nil
}

func (t *timeline) Signal(s core.Stream, v uint64) error {
	return t.hooks.signal(t.Semaphore, plain(s), v)
}

func (t *timeline) WaitOn(s core.Stream, v uint64) error {
	return t.hooks.waitOn(t.Semaphore, plain(s), v)
}

func (t *timeline) Wait(ctx context.Context, v uint64) error {
	return t.hooks.wait(t.Semaphore, ctx, v)
}

func (t *timeline) Close() error { return t.hooks.close(t.Semaphore) }

// reading is a mark of a device.
type reading struct {
	core.Mark
	device *device
}

func (w *wrapper) Mark(s core.Stream) (core.Mark, error) {
	m, err := w.hooks.clock.mark(w.device, plain(s))
	if err != nil {
		return nil, err
	}
	return &reading{m, w.device}, nil
}

func (r *reading) Since(earlier core.Mark) (time.Duration, error) {
	if other, ok := earlier.(*reading); ok {
		earlier = other.Mark
	}
	return r.device.hooks.clock.since(r.Mark, earlier)
}

func (r *reading) Close() error { return r.device.hooks.clock.close(r.device, r.Mark) }

// deviceFile is a file of a device.
type deviceFile struct {
	core.DeviceFile
	hooks hooks
}

func (w *wrapper) OpenFile(ctx context.Context, file *os.File) (core.DeviceFile, error) {
	f, err := w.fake.OpenFile(ctx, file)
	if err != nil {
		return nil, err
	}
	return &deviceFile{f, w.hooks}, nil
}

func (f *deviceFile) ReadAt(ctx context.Context, dst *core.Tensor, offset int64) error {
	return f.hooks.readAt(f.DeviceFile, ctx, dst, offset)
}
