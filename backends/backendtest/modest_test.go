package backendtest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// modest is a simulated device that offers nothing optional, and declares what it is told.
type modest struct {
	core.Device
	backendkit.CloseNotifier
	capabilities core.Capabilities
}

func (m *modest) Properties() core.Properties {
	p := m.Device.Properties()
	p.Capabilities = m.capabilities
	return p
}

// oneQueue is a modest device all of whose streams are one queue.
type oneQueue struct {
	*modest
	open atomic.Int32 // streams

	mu    sync.Mutex
	queue core.Stream // nil while no stream is open
}

// member is a stream of such a device.
type member struct {
	*queue
	device *oneQueue
	once   sync.Once
}

func (o *oneQueue) NewStream(ctx context.Context) (core.Stream, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d := o.Device.(*wrapper)
	if o.queue == nil {
		s, err := d.fake.NewStream(ctx)
		if err != nil {
			return nil, err
		}
		o.queue = s
	}
	s, err := d.fake.ImportStream(ctx, o.queue.Native())
	if err != nil {
		return nil, err
	}
	o.open.Add(1)
	return &member{queue: &queue{s, d.device}, device: o}, nil
}

func (m *member) Close() error {
	err := m.queue.Close()
	m.once.Do(func() { m.device.open.Add(-1) })
	return err
}

func (o *oneQueue) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queue != nil && o.open.Load() == 0 {
		if err := o.queue.Close(); err != nil {
			return err
		}
		o.queue = nil
	}
	return o.Device.Close()
}

// holdQueue holds a stream by a semaphore that a queue of its own signals.
func holdQueue(tb testing.TB, s core.Stream) (release func()) {
	d := s.(*member).queue.device.fake
	sem, err := d.NewSemaphore(tb.Context(), 0)
	if err != nil {
		tb.Fatal(err)
	}
	signaller, err := d.NewStream(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	if err := sem.WaitOn(plain(s), 1); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _ = signaller.Close(), sem.Close() })
	return sync.OnceFunc(func() {
		if err := sem.Signal(signaller, 1); err != nil {
			tb.Error(err)
		}
	})
}

// What a device does not declare, the suite does not need.
func TestModestDevices(t *testing.T) {
	atOnce := func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
		if err := d.Copy(ctx, s, dst, src); err != nil || s == nil {
			return err
		}
		return s.Synchronize(ctx)
	}
	wholeBytes := failIf(func(dst, src *core.Tensor) bool {
		if dst == nil || !dst.DType().SubByte() || dst.Padded() {
			return false
		}
		_, err := backendkit.CheckCopy(dst, src)
		return err == nil && !(dst.Layout().IsContiguous() && src.Layout().IsContiguous() && dst.NumElements()*dst.DType().ElementBits()%8 == 0)
	})
	unseen := refuses(func(_ int64, o core.AllocOptions) error {
		if o.HostVisible {
			return core.Errorf(core.ErrNotSupported, "modest", "Alloc", "the host sees no memory")
		}
		return nil
	})
	for i, m := range []struct {
		name         string
		capabilities core.Capabilities
		hooks        hooks
	}{
		{"synchronous", core.CapStreamWait | core.CapSubByte, hooks{copy: atOnce}},
		{"the host waits", core.CapAsync | core.CapSubByte, hooks{options: coretest.Options{HostWaits: true}}},
		{"whole bytes", core.CapAsync | core.CapStreamWait, wholeBytes},
		{"one queue", core.CapAsync | core.CapStreamWait | core.CapSubByte, hooks{options: coretest.Options{Opaque: true}, alloc: unseen.alloc}},
	} {
		shared := m.name == "one queue"
		if coretest.Sanitized && !shared {
			continue // they differ in nothing that a sanitizer sees
		}
		t.Run(m.name, func(t *testing.T) {
			m.hooks.options.Log = t.Logf
			first, _ := wrapped(m.hooks)
			o := Options{Variant: i, Variants: 4}
			if shared {
				o.Hold = holdQueue
			}
			Run(t, func(tb testing.TB) core.Device {
				d := first(tb)
				w := d.outer.(*wrapper)
				plain := &modest{Device: w, CloseNotifier: w, capabilities: m.capabilities}
				d.outer = plain
				if shared {
					d.outer = &oneQueue{modest: plain}
				}
				return d.outer
			}, o)
		})
	}
}
