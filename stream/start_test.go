package stream_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// piece is work that goes on by itself once it is started, until the test ends it.
type piece struct{ begun, ended stream.Event }

func (p *piece) start() (func() (bool, error), error) {
	p.begun.Complete(nil)
	return func() (bool, error) {
		done, err := p.ended.Done()
		if !done {
			time.Sleep(10 * time.Microsecond)
		}
		return done, err
	}, nil
}

// started enqueues a piece.
func started(tb testing.TB, q *stream.Queue) *piece {
	tb.Helper()
	p := new(piece)
	mustStart(tb, q, p.start)
	return p
}

func mustStart(tb testing.TB, q *stream.Queue, start func() (func() (bool, error), error)) {
	tb.Helper()
	if err := stream.Start(q, start); err != nil {
		tb.Fatal(err)
	}
}

// begins fails the test if the piece is not started soon.
func (p *piece) begins(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	if err := p.begun.Wait(ctx); err != nil {
		tb.Fatalf("the work is not started: %v", err)
	}
}

// stays fails the test if an event is done within a short time.
func stays(tb testing.TB, what string, e core.Event) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Millisecond)
	defer cancel()
	if err := e.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		tb.Errorf("%s is over before the work before it: %v", what, err)
	}
}

func TestWorkIsStartedWhileOtherWorkGoesOn(t *testing.T) {
	checkNoGoroutines(t)
	q := newQueue(t)
	first := started(t, q)
	firstDone := record(t, q)
	if err := errors.Join(q.Wait(firstDone), q.WaitSettled(firstDone)); err != nil {
		t.Fatal(err)
	}
	second := started(t, q)
	secondDone := record(t, q)
	third := started(t, q)
	thirdDone := record(t, q)
	for _, p := range []*piece{first, second, third} {
		p.begins(t)
	}
	third.ended.Complete(nil) // later work that seems to be done is reported in order
	second.ended.Complete(nil)
	for _, e := range []core.Event{firstDone, secondDone, thirdDone} {
		stays(t, "an event", e)
	}
	first.ended.Complete(errA)
	for i, e := range []core.Event{firstDone, secondDone} { // the second piece waits for the first, and so has its error
		if err := e.Wait(t.Context()); !errors.Is(err, errA) {
			t.Errorf("event %d: error %v, want that of the first piece", i, err)
		}
	}
	if err := thirdDone.Wait(t.Context()); err != nil {
		t.Errorf("the third event: error %v of other work", err)
	}
	if err := q.Synchronize(t.Context()); !errors.Is(err, errA) {
		t.Errorf("Synchronize: error %v", err)
	}
}

func TestOtherWorkWaitsForStartedWork(t *testing.T) {
	q := newQueue(t)
	p := started(t, q)
	p.begins(t)
	ran := stream.NewEvent()
	mustEnqueue(t, q, func() error { ran.Complete(nil); return nil })
	after := started(t, q)
	stays(t, "work of the host", ran)
	stays(t, "the start of work after that of the host", &after.begun)
	closed := stream.NewEvent()
	go func() { closed.Complete(q.Close()) }()
	stays(t, "Close", closed)
	p.ended.Complete(nil)
	after.begins(t)
	stays(t, "Close", closed)
	after.ended.Complete(errB)
	if err := closed.Wait(t.Context()); !errors.Is(err, errB) {
		t.Errorf("Close: error %v, want that of the work", err)
	}
	coretest.WantError(t, stream.Start(q, p.start), core.ErrClosed, "Start after Close")
}

// The queue of a device keeps the order of what was started by its streams, but not that of other work.
func TestStartedWorkFollowsOnlyWhatItsDeviceHasStarted(t *testing.T) {
	b := newBackend(t, coretest.Options{})
	d, other := open(t, b, 0), open(t, b, 1)
	for _, c := range []struct {
		rule    string
		device  core.Device   // of the queue whose event is waited for
		started bool          // its work
		pause   time.Duration // before the second piece is enqueued
		follows bool
	}{
		{"started work of the device", d, true, 0, true},
		{"started work of the device, for which the queue waits already", d, true, 2 * time.Millisecond, true},
		{"started work of another device", other, true, 0, false},
		{"work of the host", d, false, 0, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			before, q := stream.NewQueue(c.device), stream.NewQueue(d)
			first := new(piece)
			if c.started {
				mustStart(t, before, first.start)
			} else {
				mustEnqueue(t, before, func() error { first.begun.Complete(nil); return first.ended.Wait(t.Context()) })
			}
			firstDone := record(t, before)
			first.begins(t)
			if c.started { // work after the event is, too, so that the queue knows that the event is behind started work
				after := started(t, before)
				after.begins(t)
				after.ended.Complete(nil)
			}
			if err := q.Wait(firstDone); err != nil {
				t.Fatal(err)
			}
			time.Sleep(c.pause)
			second := started(t, q)
			done := record(t, q)
			if c.follows {
				second.begins(t)
			} else {
				stays(t, "the start of the second piece", &second.begun)
			}
			second.ended.Complete(nil)
			stays(t, "the second piece", done)
			first.ended.Complete(errA)
			if err := done.Wait(t.Context()); !errors.Is(err, errA) {
				t.Errorf("error %v, want that of the work before", err)
			}
			if err := errors.Join(before.Close(), q.Close()); !errors.Is(err, errA) {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

func TestAnOldEventOfTheQueueHoldsUpNothing(t *testing.T) {
	q := newQueue(t)
	first := started(t, q)
	old := record(t, q)
	first.ended.Complete(nil)
	if err := old.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := started(t, q)
	if err := q.Wait(old); err != nil {
		t.Fatal(err)
	}
	third := started(t, q)
	third.begins(t)
	second.ended.Complete(nil)
	third.ended.Complete(nil)
}

// Work that an idle queue starts is not part of the event that the queue recorded before.
func TestAnEventAfterStartedWorkIsAnotherOne(t *testing.T) {
	q := newQueue(t)
	for range 10 {
		before := record(t, q)
		if err := q.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // the queue's goroutine ends
		p := started(t, q)
		after := record(t, q)
		if after == before {
			t.Error("the event is the one before the work")
		} else {
			stays(t, "the work", after)
		}
		p.ended.Complete(nil)
	}
}

// Queues that start no work may have devices that cannot be compared.
func TestQueuesOfADeviceThatCannotBeCompared(t *testing.T) {
	d := struct {
		core.Device
		_ []int
	}{}
	before, q := stream.NewQueue(d), stream.NewQueue(d)
	gate := stream.NewEvent()
	mustEnqueue(t, before, func() error { return gate.Wait(t.Context()) })
	errWait := before.Wait(record(t, before))
	done := record(t, before)
	gate.Complete(nil)
	if err := errors.Join(errWait, done.Wait(t.Context()), q.Wait(done), q.Close(), before.Close()); err != nil {
		t.Error(err)
	}
}

func TestFewPiecesAreStartedAtATime(t *testing.T) {
	q := newQueue(t)
	var begun atomic.Int32
	gate := stream.NewEvent()
	for range 100 {
		mustStart(t, q, func() (func() (bool, error), error) {
			begun.Add(1)
			return func() (bool, error) { time.Sleep(time.Microsecond); return gate.Done() }, nil
		})
	}
	for deadline := time.Now().Add(20 * time.Second); begun.Load() < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("the second piece is not started before the first is done")
			break
		}
	}
	time.Sleep(10 * time.Millisecond)
	if n := begun.Load(); n > 32 {
		t.Errorf("%d pieces are started before the first is done", n)
	}
	gate.Complete(nil)
	if err := q.Synchronize(t.Context()); err != nil || begun.Load() != 100 {
		t.Errorf("%d pieces were started, error %v", begun.Load(), err)
	}
}

func TestAStartThatFailsIsAnErrorOfItsWork(t *testing.T) {
	checkNoGoroutines(t)
	for rule, start := range map[string]func() (func() (bool, error), error){
		"an error": func() (func() (bool, error), error) { return nil, errB },
		"a panic":  func() (func() (bool, error), error) { panic(errB) },
		"Goexit":   func() (func() (bool, error), error) { runtime.Goexit(); return nil, nil },
	} {
		t.Run(rule, func(t *testing.T) {
			q := newQueue(t)
			first := started(t, q)
			firstDone := record(t, q)
			mustStart(t, q, start)
			failed := record(t, q)
			last := started(t, q)
			lastDone := record(t, q)
			last.begins(t)
			stays(t, "what failed", failed)
			first.ended.Complete(nil)
			last.ended.Complete(nil)
			if err := errors.Join(firstDone.Wait(t.Context()), lastDone.Wait(t.Context())); err != nil {
				t.Errorf("other work has the error %v", err)
			}
			if err := failed.Wait(t.Context()); err == nil {
				t.Error("the event of what failed has no error")
			}
			if err := q.Synchronize(t.Context()); err == nil {
				t.Error("Synchronize has no error")
			}
		})
	}
}

// Queues of one device start work on a tensor, by turns with work of the host, as its copies do. The device does one piece after
// the other, some time after it was started.
func TestStartedWorkKeepsItsOrder(t *testing.T) {
	checkNoGoroutines(t)
	d := open(t, newBackend(t, coretest.Options{}), 0)
	work := make(chan func(), 1000)
	var device sync.WaitGroup
	device.Go(func() {
		for f := range work {
			if runtime.Gosched(); len(work)%3 == 0 {
				time.Sleep(20 * time.Microsecond)
			}
			f()
		}
	})
	x := host(t, []int32{0})
	value := 0 // of x; unordered work is a race
	var queues [3]*stream.Queue
	for i := range queues {
		queues[i] = stream.NewQueue(d)
	}
	const n = 600
	for i := range n {
		q := queues[i%7%3]
		step := func() error {
			if value != i {
				t.Errorf("step %d runs as number %d", i, value)
			}
			value++
			return nil
		}
		err := stream.Submit(t.Context(), q, []*core.Tensor{x}, nil, func() error {
			if i%11 == 0 {
				return q.Enqueue(step)
			}
			return stream.Start(q, func() (func() (bool, error), error) {
				var p piece
				work <- func() { p.ended.Complete(step()) }
				return p.start()
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range queues {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
	close(work)
	device.Wait()
	if value != n {
		t.Errorf("%d of %d steps ran", value, n)
	}
}
