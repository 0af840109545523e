package share

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// bound returns a context that also ends with the connection. The caller calls stop when it needs the context no more.
func (c *Conn) bound(ctx context.Context) (bound context.Context, stop func()) {
	b := &boundContext{of: ctx, life: c.life}
	return b, b.stop
}

// boundContext is the result of bound. The host's memory never asks for Done; the contexts of package context that tell
// of both ends are made only when something does.
type boundContext struct {
	of, life context.Context

	made   atomic.Pointer[context.Context]
	mu     sync.Mutex // guards what is below
	cancel context.CancelFunc
	unlink func() bool
}

// both returns the context that package context knows.
func (b *boundContext) both() context.Context {
	if made := b.made.Load(); made != nil {
		return *made
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if made := b.made.Load(); made != nil {
		return *made
	}
	ctx, cancel := context.WithCancel(b.of)
	b.cancel, b.unlink = cancel, context.AfterFunc(b.life, cancel)
	b.made.Store(&ctx)
	return ctx
}

// stop ends the context.
func (b *boundContext) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel == nil { // nothing has waited for it
		b.made.Store(&stoppedContext)
		return
	}
	b.unlink()
	b.cancel()
}

// stoppedContext takes the place of a context that nothing has waited for.
var stoppedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Deadline implements [context.Context].
func (b *boundContext) Deadline() (time.Time, bool) { return b.of.Deadline() }

// Done implements [context.Context].
func (b *boundContext) Done() <-chan struct{} { return b.both().Done() }

// Err implements [context.Context].
func (b *boundContext) Err() error {
	if made := b.made.Load(); made != nil {
		return (*made).Err()
	}
	if err := b.of.Err(); err != nil {
		return err
	}
	return b.life.Err()
}

// Value implements [context.Context]. Package context finds by it the context that its own children can be added to.
func (b *boundContext) Value(key any) any { return b.both().Value(key) }
