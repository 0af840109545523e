package exchange_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// deviceBit is set in the addresses of simulated devices.
const deviceBit = 1 << 52

// fake is a simulated device that has the capabilities it declares, whatever they
// are: memory that leaves by handle, views of the host, shared semaphores. Its
// streams wait for the events of their own device only, as those of two APIs do.
type fake struct {
	*coretest.Device
	backend    *coretest.Backend
	world      *world
	properties core.Properties
	visible    bool                    // all memory, asked for or not
	freeing    func()                  // called, if set, before a view or an import is freed
	refuses    func(core.Memory) error // called, if set, by CanMap
	types      []core.HandleType       // of handles that it says to export and import

	mu       sync.Mutex
	handles  map[uintptr]core.AllocOptions // how memory was allocated, by address
	failures map[string]error              // calls that fail
	open     atomic.Int32                  // views and imports
	calls    map[string]int
}

// world is where handles mean something.
type world struct {
	mu         sync.Mutex
	memories   map[uint64]core.Memory
	semaphores map[uint64]core.Semaphore
	next       uint64
}

const handleType = core.HandleIPC // a type without descriptors, of one device and driver

// newFakes makes two devices of one backend with the given capabilities of those that
// have to do with sharing: map_host, peer and all of sharing.
func newFakes(t testing.TB, from, to core.Capabilities) (a, b *fake) {
	t.Helper()
	backend := coretest.NewBackend(coretest.Options{Log: t.Logf})
	w := &world{memories: make(map[uint64]core.Memory), semaphores: make(map[uint64]core.Semaphore)}
	return newFake(t, backend, w, 0, from), newFake(t, backend, w, 1, to)
}

func newFake(t testing.TB, backend *coretest.Backend, w *world, index int32, caps core.Capabilities) *fake {
	t.Helper()
	d, err := backend.Open(t.Context(), core.DeviceID{Type: core.DeviceExt, Index: index})
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{Device: d.(*coretest.Device), backend: backend, world: w, properties: d.Properties(), types: []core.HandleType{handleType},
		handles: make(map[uintptr]core.AllocOptions), failures: make(map[string]error), calls: make(map[string]int)}
	f.properties.UUID, f.properties.DriverUUID = core.UUID{1}, core.UUID{2}
	f.properties.Capabilities &^= core.CapMapHost | core.CapPeer | core.CapBatchCopy
	f.properties.Capabilities |= caps
	t.Cleanup(func() {
		err := f.Close()
		for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); err = f.Close() {
			time.Sleep(time.Millisecond) // another goroutine may be about to free what was released
		}
		if err != nil {
			t.Errorf("closing %v: %v", f.ID(), err)
		}
	})
	return f
}

func (f *fake) Properties() core.Properties { return f.properties }

// call counts a call and says whether it fails.
func (f *fake) call(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[name]++
	if err := f.failures[name]; err != nil {
		return core.Errorf(err, "fake", name, "the test made this call fail")
	}
	return nil
}

// fail makes all further calls fail, or with nil go well.
func (f *fake) fail(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures[name] = err
}

func (f *fake) called(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[name]
}

func (f *fake) Alloc(ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
	plain := o
	plain.Export, plain.HostVisible, plain.Stream = 0, false, nil
	m, err := f.Device.Alloc(ctx, size, plain)
	if err != nil {
		return m, err
	}
	m.Device = f
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handles[m.Handle] = o
	return m, nil
}

// options are those that b was allocated with.
func (f *fake) options(b *core.Buffer) core.AllocOptions {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.handles[b.Memory().Handle]
}

// owned makes memory that is counted until it is freed.
func (f *fake) owned(m core.Memory, free func()) core.Memory {
	f.open.Add(1)
	m.Owner = core.FreeFunc(func() {
		if f.freeing != nil {
			f.freeing()
		}
		f.open.Add(-1)
		free()
	})
	return m
}

func (f *fake) MapHost(ctx context.Context, b *core.Buffer) (core.Memory, error) {
	if err := f.call("MapHost"); err != nil {
		return core.Memory{}, err
	}
	m, err := f.Device.MapHost(ctx, b)
	m.Device = f
	return m, err
}

func (f *fake) CanMap(m core.Memory) error {
	if f.refuses != nil {
		if err := f.refuses(m); err != nil {
			return err
		}
	}
	return f.Device.CanMap(m)
}

func (f *fake) ImportPointer(p uintptr, size int64, o core.Owner) (core.Memory, error) {
	m, err := f.Device.ImportPointer(p, size, o)
	m.Device = f
	return m, err
}

func (f *fake) HostView(_ context.Context, b *core.Buffer) (core.Memory, error) {
	if err := f.call("HostView"); err != nil {
		return core.Memory{}, err
	}
	if m := b.Memory(); m.Device != core.Device(f) || !f.visible && !f.options(b).HostVisible {
		return core.Memory{}, core.Errorf(core.ErrNotSupported, "fake", "HostView", "the host cannot reach the memory: allocate it with HostVisible")
	}
	m := b.Memory()
	return f.owned(core.Memory{ID: core.CPU, Handle: m.Handle &^ deviceBit, Size: m.Size, Origin: m.OriginType()}, b.Release), b.Retain()
}

func (f *fake) ExportTypes() []core.HandleType { return f.types }
func (f *fake) ImportTypes() []core.HandleType { return f.types }

func (f *fake) ExportMemory(b *core.Buffer, t core.HandleType) (core.ExternalMemory, error) {
	if err := f.call("ExportMemory"); err != nil {
		return core.ExternalMemory{}, err
	}
	m := b.Memory()
	if f.options(b).Export != t {
		return core.ExternalMemory{}, core.Errorf(core.ErrInvalid, "fake", "ExportMemory", "the memory was not allocated for export")
	}
	x := core.ExternalMemory{Size: m.Size, Length: m.Size, DeviceUUID: f.properties.UUID, DriverUUID: f.properties.DriverUUID}
	var err error
	x.Handle, err = f.world.name(func(n uint64) { f.world.memories[n] = m })
	return x, err
}

func (f *fake) EndExport(*core.Buffer) error { return f.call("EndExport") }

// name has keep store something under a number, and returns a handle of that.
func (w *world) name(keep func(uint64)) (*core.Handle, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	keep(w.next)
	return backendkit.NewIPCHandle(core.VendorAMD, binary.NativeEndian.AppendUint64(nil, w.next))
}

// number is what a handle of name stands for.
func number(h *core.Handle) (uint64, error) {
	payload, err := h.Payload()
	if err != nil {
		return 0, err
	}
	return binary.NativeEndian.Uint64(payload), nil
}

func (f *fake) ImportMemory(_ context.Context, x core.ExternalMemory) (core.Memory, error) {
	if err := f.call("ImportMemory"); err != nil {
		return core.Memory{}, err
	}
	if x.DeviceUUID != f.properties.UUID { // as devices do
		return core.Memory{}, core.Errorf(core.ErrDevice, "fake", "ImportMemory", "the memory is of device %v", x.DeviceUUID)
	}
	n, err := number(x.Handle)
	if err != nil {
		return core.Memory{}, err
	}
	f.world.mu.Lock()
	m, ok := f.world.memories[n]
	f.world.mu.Unlock()
	if !ok {
		return core.Memory{}, core.Errorf(core.ErrInvalid, "fake", "ImportMemory", "no such handle")
	}
	_ = x.Close()
	return f.owned(core.Memory{ID: f.ID(), Device: f, Handle: m.Handle, Size: x.Length}, func() {}), nil
}

func (f *fake) CanPeer(peer core.Device) error {
	if p, ok := peer.(*fake); ok && p.backend == f.backend {
		return f.call("CanPeer")
	}
	return core.Errorf(core.ErrNotSupported, "fake", "CanPeer", "no peer")
}

func (f *fake) CopyPeer(ctx context.Context, s core.Stream, dst, src *core.Tensor, peer core.Device) error {
	return f.copy(ctx, "CopyPeer", s, dst, src, peer.ID())
}

func (f *fake) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	return f.copy(ctx, "Copy", s, dst, src, f.ID())
}

// CopyBatch is for copies that do not depend on each other, as all of exchange do not.
func (f *fake) CopyBatch(ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
	if err := f.call("CopyBatch"); err != nil {
		return err
	}
	for i := range dst {
		if _, err := f.checkCopy("CopyBatch", s, dst[i], src[i], f.ID()); err != nil {
			return err
		}
	}
	for _, list := range []*[]*core.Tensor{&dst, &src} {
		kept := make([]*core.Tensor, len(*list))
		for i, t := range *list {
			kept[i], _ = t.Share() // they were checked
		}
		*list = kept
	}
	closeAll := func() {
		for _, t := range slices.Concat(dst, src) {
			_ = t.Close()
		}
	}
	err := stream.Submit(ctx, s, dst, src, func() error {
		return s.(*fakeStream).Enqueue(func() error {
			defer closeAll()
			for i := range dst {
				if err := coretest.CopyNaive(dst[i], src[i]); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		closeAll()
	}
	return err
}

func (f *fake) copy(ctx context.Context, call string, s core.Stream, dst, src *core.Tensor, from core.DeviceID) error {
	if err := f.call(call); err != nil {
		return err
	}
	own, err := f.checkCopy(call, s, dst, src, from)
	if err != nil {
		return err
	}
	return stream.Submit(ctx, s, []*core.Tensor{dst}, []*core.Tensor{src}, func() error {
		d, err := dst.Share()
		if err != nil {
			return err
		}
		v, err := src.Share()
		if err != nil {
			_ = d.Close()
			return err
		}
		err = own.Enqueue(func() error {
			defer d.Close()
			defer v.Close()
			return coretest.CopyNaive(d, v)
		})
		if err != nil {
			_, _ = d.Close(), v.Close()
		}
		return err
	})
}

// checkCopy checks the tensors and the stream of a copy, which it returns.
func (f *fake) checkCopy(call string, s core.Stream, dst, src *core.Tensor, from core.DeviceID) (*fakeStream, error) {
	for _, t := range []*core.Tensor{dst, src} {
		if id := t.DeviceID(); id != f.ID() && id != from && id != core.CPU {
			return nil, core.Errorf(core.ErrDevice, "fake", call, "from %v to %v", src.DeviceID(), dst.DeviceID())
		}
	}
	own, ok := s.(*fakeStream)
	if !ok || own.fake != f {
		return nil, core.Errorf(core.ErrDevice, "fake", call, "%T is no stream of %v", s, f.ID())
	}
	if _, err := backendkit.CheckCopy(dst, src); err != nil {
		return nil, err
	}
	return own, nil
}

func (f *fake) NewStream(ctx context.Context) (core.Stream, error) {
	s, err := f.Device.NewStream(ctx)
	if err != nil {
		return nil, err
	}
	return &fakeStream{s.(*coretest.Stream), f}, nil
}

// Close fails while views or imports are open, which the simulated device does not know of.
func (f *fake) Close() error {
	f.RunCloseHooks()
	if n := f.open.Load(); n > 0 {
		return core.Errorf(core.ErrInvalid, "fake", "Close", "%d views or imports are open", n)
	}
	return f.Device.Close()
}

type fakeStream struct {
	*coretest.Stream
	fake *fake
}

func (s *fakeStream) Device() core.Device { return s.fake }

// fakeEvent tells whose it is.
type fakeEvent struct {
	core.Event
	fake *fake
}

func (s *fakeStream) Record() (core.Event, error) {
	e, err := s.Stream.Record()
	if err != nil {
		return nil, err
	}
	return fakeEvent{e, s.fake}, nil
}

func (s *fakeStream) Wait(e core.Event) error {
	own, ok := backendkit.UnwrapEvent(e).(fakeEvent)
	if !ok || own.fake != s.fake {
		return core.Errorf(core.ErrNotSupported, "fake", "Wait", "not an event of %v", s.fake.ID())
	}
	if err := s.fake.call("Wait"); err != nil {
		return err
	}
	return s.Stream.Wait(own.Event)
}

func (f *fake) NewSemaphore(ctx context.Context, t core.HandleType) (core.Semaphore, error) {
	if err := f.call("NewSemaphore"); err != nil {
		return nil, err
	}
	s, err := f.Device.NewSemaphore(ctx, 0)
	if err != nil {
		return nil, err
	}
	return &fakeSemaphore{s, s.Close}, nil
}

func (f *fake) SemaphoreExportTypes() []core.HandleType { return []core.HandleType{handleType} }
func (f *fake) SemaphoreImportTypes() []core.HandleType { return []core.HandleType{handleType} }

func (f *fake) ExportSemaphore(s core.Semaphore, t core.HandleType) (core.ExternalSemaphore, error) {
	if err := f.call("ExportSemaphore"); err != nil {
		return core.ExternalSemaphore{}, err
	}
	h, err := f.world.name(func(n uint64) { f.world.semaphores[n] = s })
	return core.ExternalSemaphore{Handle: h, DeviceUUID: f.properties.UUID, DriverUUID: f.properties.DriverUUID}, err
}

func (f *fake) ImportSemaphore(_ context.Context, x core.ExternalSemaphore) (core.Semaphore, error) {
	if err := f.call("ImportSemaphore"); err != nil {
		return nil, err
	}
	n, err := number(x.Handle)
	if err != nil {
		return nil, err
	}
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	s, ok := f.world.semaphores[n].(*fakeSemaphore)
	if !ok {
		return nil, core.Errorf(core.ErrInvalid, "fake", "ImportSemaphore", "no such handle")
	}
	_ = x.Close()
	f.open.Add(1)
	var once sync.Once
	return &fakeSemaphore{s.Semaphore, func() error {
		once.Do(func() { f.open.Add(-1) })
		return nil
	}}, nil
}

// fakeSemaphore is one side of a semaphore.
type fakeSemaphore struct {
	core.Semaphore
	close func() error
}

func (m *fakeSemaphore) Signal(s core.Stream, value uint64) error {
	return m.Semaphore.Signal(s.(*fakeStream).Stream, value)
}

func (m *fakeSemaphore) WaitOn(s core.Stream, value uint64) error {
	return m.Semaphore.WaitOn(s.(*fakeStream).Stream, value)
}

func (m *fakeSemaphore) Close() error { return m.close() }

var (
	_ core.MemoryExporter    = (*fake)(nil)
	_ core.MemoryImporter    = (*fake)(nil)
	_ core.HostViewer        = (*fake)(nil)
	_ core.SemaphoreExporter = (*fake)(nil)
	_ core.SemaphoreImporter = (*fake)(nil)
)

// host opens the host, which the test closes at its end.
func host(t testing.TB) core.Device {
	t.Helper()
	d, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// newStream makes a stream that the test closes at its end.
func newStream(t testing.TB, d core.Device) core.Stream {
	t.Helper()
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// numbered makes a tensor on d with the elements 0, 1, 2... as int32, written
// when it returns. The caller closes it.
func numbered(t testing.TB, d core.Device, o core.AllocOptions, shape ...int64) *core.Tensor {
	t.Helper()
	x, err := core.Empty(t.Context(), d, core.TypeInt32, shape, o)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]int32, x.NumElements())
	for i := range values {
		values[i] = int32(i)
	}
	write(t, d, x, values)
	return x
}

// write sets the elements of a tensor of d.
func write(t testing.TB, d core.Device, x *core.Tensor, values []int32) {
	t.Helper()
	v, err := core.FromSlice(values, x.Shape()...)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Copy(t.Context(), s, x, v), s.Synchronize(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
}

// read returns the elements of a tensor of d in row-major order, or of the host's if d is nil.
func read(t testing.TB, d core.Device, x *core.Tensor) []int32 {
	t.Helper()
	values := make([]int32, x.NumElements())
	v, err := core.FromSlice(values, x.Shape()...)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Copy(t.Context(), s, v, x), s.Synchronize(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	return values
}
