//go:build vulkan && linux && cgo

package vulkan

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// The streams of a lost device can be closed one after the other, though some of their waits are over and others are not,
// and a semaphore that others know keeps its value.
func TestStreamsOfALostDeviceClose(t *testing.T) {
	u := newQueueUser(t)
	x, y := u.tensor(1), u.tensor(2)
	over, never, known := u.semaphore(), u.semaphore(), u.semaphore()
	known.shared = true
	counter := u.semaphore()
	a, b, c := u.lostStream(), u.lostStream(), u.lostStream()
	u.must(over.WaitOn(a, 1))
	u.copy(a, x, y)
	e, err := a.Record()
	u.must(err, never.WaitOn(a, 1), counter.Signal(a, 1))
	u.must(known.WaitOn(b, 7))
	u.must(never.WaitOn(c, 1))
	u.must(inner(u.device).driver.Signal(over.timeline, 1), e.Wait(u.ctx))
	d := inner(u.device)
	_ = d.NoteLoss(errorf(core.ErrDeviceLost, "test", "the device is lost"))
	d.endPrivateWaits()
	if now, err := d.driver.Counter(known.timeline); err != nil || now != 0 {
		t.Errorf("a semaphore that others know is at %d: %v", now, err)
	}
	u.must(d.driver.Signal(known.timeline, 7)) // the driver does not know of the loss, and waits
	for _, q := range []*queue{c, a, b} {
		if err := q.Close(); err != nil && !errors.Is(err, core.ErrDeviceLost) { // its work may be done
			t.Errorf("a stream of a lost device closes with %v", err)
		}
	}
}

// lostStream makes a stream that the test closes.
func (u *queueUser) lostStream() *queue {
	u.Helper()
	s, err := u.device.NewStream(u.ctx)
	u.must(err)
	return s.(*queue)
}

// A stream that only waits for work in a private queue does not keep a queue of its own when that work is done.
func TestAnIdleStreamKeepsNoPrivateQueue(t *testing.T) {
	u := newQueueUser(t)
	gate, x, y := u.semaphore(), u.tensor(1), u.tensor(2)
	first := u.stream()
	u.must(gate.WaitOn(first, 1))
	u.copy(first, x, y)
	e, err := first.Record()
	u.must(err)
	idle := make([]*queue, u.private-1)
	for i := range idle {
		idle[i] = u.stream()
		u.must(idle[i].Wait(e))
		u.wantWaits(idle[i], true)
	}
	u.must(inner(u.device).driver.Signal(gate.timeline, 1), e.Wait(u.ctx))
	for _, q := range idle {
		u.must(q.Synchronize(u.ctx))
	}
	later := u.semaphore()
	for range idle {
		q := u.stream()
		u.must(later.WaitOn(q, 1))
		u.wantWaits(q, true)
	}
	u.must(inner(u.device).driver.Signal(later.timeline, 1))
}
