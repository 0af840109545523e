package benchmarks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// gateEnv is an environment without devices.
func gateEnv(t *testing.T) *env {
	t.Helper()
	e := &env{ctx: t.Context(), registry: hostRegistry(t), small: true}
	t.Cleanup(e.close)
	return e
}

func TestStreamsBeginWhenAllWorkIsEnqueued(t *testing.T) {
	e := gateEnv(t)
	g, begun := e.gate(), make(chan int, 100)
	var enqueued [2]int
	var list []work
	for i := range enqueued {
		q := e.queue()
		list = append(list, work{stream: q, times: 5, op: func() error {
			enqueued[i]++
			return q.Enqueue(func() error {
				begun <- enqueued[0] + enqueued[1]
				return nil
			})
		}})
	}
	for run := 1; run <= 3; run++ { // a gate is used again
		d, err := g.run(t.Context(), list)
		if err != nil || d <= 0 || g.onHost || g.early || len(g.notes()) != 0 {
			t.Fatalf("%v, %v, %+v", d, err, g)
		}
		for range 10 {
			if n := <-begun; n != 10*run {
				t.Errorf("work began when %d of %d operations were enqueued", n, 10*run)
			}
		}
	}
}

// What counts is over when its streams are done; what is ignored is waited for off the clock. The clock is that of synctest,
// which stands still while anything runs, so that the times are exact.
func TestWorkThatKeepsBusyIsNotOnTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := gateEnv(t)
		g, quick, slow := e.gate(), e.queue(), e.queue()
		const counted, ignored = time.Second, time.Hour
		began := time.Now()
		d, err := g.run(t.Context(), []work{
			{stream: quick, times: 2, op: func() error { return quick.Enqueue(func() error { time.Sleep(counted); return nil }) }},
			{stream: slow, times: 1, ignored: true, op: func() error {
				return slow.Enqueue(func() error { time.Sleep(ignored); return nil })
			}},
		})
		if err != nil || d != 2*counted {
			t.Errorf("%v on the clock, want %v; %v", d, 2*counted, err)
		}
		if whole := time.Since(began); whole != ignored {
			t.Errorf("the call returned after %v, want %v: it waits for what is ignored, too", whole, ignored)
		}
	})
}

// A stream that cannot wait for the host is driven by a goroutine that waits.
func TestStreamsThatCannotWaitAreHeldByGoroutines(t *testing.T) {
	backend := coretest.NewBackend(coretest.Options{Submit: stream.Submit, HostWaits: true, Log: t.Logf})
	e := gateEnv(t)
	if err := e.registry.Register(backend); err != nil {
		t.Fatal(err)
	}
	d, err := e.open(core.DeviceID{Type: core.DeviceExt})
	if err != nil {
		t.Fatal(err)
	}
	var lanes []lane
	for i := range uint64(3) {
		one, err := e.localLane(d, 4096, sentSeed+i)
		if err != nil {
			t.Fatal(err)
		}
		lanes = append(lanes, one)
	}
	tr, err := e.copies(lanes...)
	if err != nil || len(tr.notes) != 1 || tr.bytes != 3*4096 || tr.resolution <= 0 {
		t.Fatalf("%+v, %v", tr, err)
	}
	if m, err := tr.verify(); m != nil || err != nil {
		t.Errorf("%+v, %v", m, err)
	}
}

// An operation that waits for earlier work of its stream, or for room in a queue, ends only after the gate is open.
func TestTheGateOpensForAFullQueue(t *testing.T) {
	e := gateEnv(t)
	g, q := e.gate(), e.queue()
	g.patience = time.Millisecond
	free := make(chan struct{}, 1) // a queue with room for one
	d, err := g.run(t.Context(), []work{{stream: q, times: 20, op: func() error {
		free <- struct{}{}
		return q.Enqueue(func() error { <-free; return nil })
	}}})
	if err != nil || d <= 0 || !g.early || len(g.notes()) != 1 {
		t.Errorf("%v, %v, %+v", d, err, g)
	}
}

// Whatever call fails, the gate opens, all streams end, and the error comes back. The package stream makes up for a Record that
// fails: it waits. It also makes up for a Wait for work that is done meanwhile, and whose result is overwritten.
func TestTheGateOpensIfEnqueuingFails(t *testing.T) {
	broken := errors.New("broken")
	for _, call := range []string{"Wait", "Copy", "Record", "work", "Synchronize"} {
		for nth := 1; nth <= 8; nth++ {
			backend := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})
			e := &env{ctx: t.Context(), registry: hostRegistry(t), small: true}
			if err := e.registry.Register(backend); err != nil {
				t.Fatal(err)
			}
			d, err := e.open(core.DeviceID{Type: core.DeviceExt})
			if err != nil {
				t.Fatal(err)
			}
			var lanes []lane
			for i := range uint64(2) {
				one, err := e.localLane(d, 4096, sentSeed+i)
				if err != nil {
					t.Fatal(err)
				}
				lanes = append(lanes, one)
			}
			tr, err := e.copies(lanes...)
			if err != nil {
				t.Fatal(err)
			}
			fired := backend.Fail(call, nth, broken)
			if _, err := tr.own(3); fired() && !errors.Is(err, broken) && (err != nil || call != "Record" && call != "Wait") {
				t.Errorf("the %d. %s fails: %v", nth, call, err)
			}
			e.close()
		}
	}
}

func TestAnEndOfTheContextEndsTheWait(t *testing.T) {
	e := gateEnv(t)
	g, q := e.gate(), e.queue()
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	_, err := g.run(ctx, []work{{stream: q, times: 1, op: func() error {
		return q.Enqueue(func() error { cancel(); <-release; return nil })
	}}})
	close(release)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
