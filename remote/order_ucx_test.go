//go:build ucx && linux && cgo

package remote

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// gated is a device that has no memory before open is closed. It says when it is asked for memory.
type gated struct {
	core.Device
	asked chan struct{}
	open  <-chan struct{}
}

func (d gated) Alloc(ctx context.Context, bytes int64, o core.AllocOptions) (core.Memory, error) {
	select {
	case d.asked <- struct{}{}:
	case <-ctx.Done():
		return core.Memory{}, ctx.Err()
	}
	select {
	case <-d.open:
	case <-ctx.Done():
		return core.Memory{}, ctx.Err()
	}
	return d.Device.Alloc(ctx, bytes, o)
}

// The sender is not told that its tensor was received because a later one was.
func TestReceivesThatEndInAnotherOrder(t *testing.T) {
	d := host(t)
	a, b := connect(t, Options{Limits: Limits{Tensors: 1 << 10}}) // no credit comes unasked
	x := row(t, 100, 1)
	if _, err := a.Send(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	first := make(chan error, 1)
	go func() { first <- a.WaitReceived(t.Context()) }()
	open := make(chan struct{})
	slow := gated{d, make(chan struct{}), open}
	received := make(chan error, 1)
	go func() {
		y, _, err := b.Receive(t.Context(), slow)
		_ = y.Close()
		received <- err
	}()
	<-slow.asked // the first tensor is taken
	for range 3 {
		y, _, _ := pass(t, a, b, row(t, 100, 2), d)
		wantEqual(t, row(t, 100, 2), y)
	}
	if b.mu.Lock(); b.received != 0 || b.told != 0 {
		t.Errorf("%d tensors count as received, and the peer was told of %d", b.received, b.told)
	}
	b.mu.Unlock()
	close(open)
	if err := errors.Join(<-received, <-first, a.WaitReceived(t.Context())); err != nil {
		t.Error(err)
	}
	if b.mu.Lock(); b.received != 4 || len(b.beyond) != 0 {
		t.Errorf("%d tensors count as received, and %d beyond them", b.received, len(b.beyond))
	}
	b.mu.Unlock()
}
