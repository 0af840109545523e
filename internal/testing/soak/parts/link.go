package parts

import (
	"context"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// Linked makes a semaphore by which streams of the device of to wait for streams of the device
// of from: one of them exports it and the other one imports it or, where both streams take
// functions of the host, it is one of the program's own.
// of reports whether the semaphores are the devices', which then do not close before it.
func Linked(ctx context.Context, from, to core.Stream) (l *stream.SharedSemaphore, of bool, err error) {
	if l, err := shared(ctx, from.Device(), to.Device(), true); l != nil || err != nil {
		return l, true, err
	}
	if l, err := shared(ctx, to.Device(), from.Device(), false); l != nil || err != nil {
		return l, true, err
	}
	_, signals := from.(enqueuer)
	_, waits := to.(enqueuer)
	if !signals || !waits {
		return nil, false, core.Errorf(core.ErrNotSupported, "soak", "Linked", "%v and %v share no semaphores", from.Device().ID(), to.Device().ID())
	}
	b := &bridge{signals: make(map[uint64]core.Event), changed: make(chan struct{})}
	if _, simulated := to.(*coretest.Stream); simulated {
		if b.own, err = to.Device().(core.SemaphoreCreator).NewSemaphore(ctx, 0); err != nil {
			return nil, false, err
		}
	}
	return stream.NewSharedSemaphore(b, b), false, nil
}

// shared is a link by a semaphore of owner, nil where there is none.
func shared(ctx context.Context, owner, other core.Device, signals bool) (*stream.SharedSemaphore, error) {
	e, exports := owner.(core.SemaphoreExporter)
	c, creates := owner.(core.SemaphoreCreator)
	i, imports := other.(core.SemaphoreImporter)
	op, ip := owner.Properties(), other.Properties()
	if !exports || !creates || !imports || !op.Capabilities.Has(core.CapExportSemaphores) || !ip.Capabilities.Has(core.CapImportSemaphores) || op.UUID != ip.UUID {
		return nil, nil
	}
	for _, h := range e.SemaphoreExportTypes() {
		if !slices.Contains(i.SemaphoreImportTypes(), h) {
			continue
		}
		own, err := c.NewSemaphore(ctx, h)
		if err != nil {
			return nil, err
		}
		x, err := e.ExportSemaphore(own, h)
		if err != nil {
			_ = own.Close()
			return nil, err
		}
		imported, err := i.ImportSemaphore(ctx, x)
		_ = x.Close()
		if err != nil {
			_ = own.Close()
			return nil, err
		}
		if signals {
			return stream.NewSharedSemaphore(own, imported), nil
		}
		return stream.NewSharedSemaphore(imported, own), nil
	}
	return nil, nil
}

// setter is a semaphore whose counter the host sets.
type setter interface{ Set(value uint64) }

// enqueuer is a stream that takes functions of the host.
type enqueuer interface{ Enqueue(work func() error) error }

// bridge is a semaphore of the program's own between streams that take functions of the
// host. As other semaphores it carries no errors.
type bridge struct {
	mu      sync.Mutex
	signals map[uint64]core.Event // behind what was enqueued before the value was signalled
	changed chan struct{}         // closed when signals has one more

	// own is a semaphore of the waiting device where that is a simulated one. There a function
	// must not wait: whoever waits for any work of the device may have to run it.
	own  core.Semaphore
	sets sync.WaitGroup // of own
}

var _ core.Semaphore = (*bridge)(nil)

// Signal has the counter reach value when the work of s is done.
func (b *bridge) Signal(s core.Stream, value uint64) error {
	e, err := s.Record()
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signals[value] = e
	close(b.changed)
	b.changed = make(chan struct{})
	return nil
}

// WaitOn has later work of s wait for value.
func (b *bridge) WaitOn(s core.Stream, value uint64) error {
	if b.own != nil {
		if err := b.own.WaitOn(s, value); err != nil {
			return err
		}
		b.sets.Go(func() {
			_ = b.Wait(context.Background(), value)
			b.own.(setter).Set(value)
		})
		return nil
	}
	q, ok := s.(enqueuer)
	if !ok {
		return core.Errorf(core.ErrNotSupported, "soak", "WaitOn", "the stream takes no functions")
	}
	return q.Enqueue(func() error { return b.Wait(context.Background(), value) })
}

// Value is the counter now.
func (b *bridge) Value() (now uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for value, e := range b.signals {
		if done, _ := e.Done(); done {
			now = max(now, value)
		}
	}
	return now, nil
}

// Wait waits until the counter has reached value.
func (b *bridge) Wait(ctx context.Context, value uint64) error {
	for {
		b.mu.Lock()
		e, changed := b.signals[value], b.changed
		b.mu.Unlock()
		if e != nil {
			_ = e.Wait(ctx) // a semaphore carries no errors
			return ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close releases what b has of a device. The work that waits is done.
func (b *bridge) Close() error {
	if b.own == nil {
		return nil
	}
	b.sets.Wait()
	return b.own.Close()
}
