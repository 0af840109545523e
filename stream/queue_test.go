package stream_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

var (
	errA = errors.New("a failed")
	errB = errors.New("b failed")
)

func fails(err error) func() error { return func() error { return err } }

func record(t *testing.T, s core.Stream) core.Event {
	t.Helper()
	e, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustEnqueue(t *testing.T, q *stream.Queue, work func() error) {
	t.Helper()
	if err := q.Enqueue(work); err != nil {
		t.Fatal(err)
	}
}

func TestQueueRunsWorkInOrder(t *testing.T) {
	checkNoGoroutines(t)
	q := newQueue(t)
	const n = 10_000 // more than an idle queue keeps room for
	var got []int
	for i := range n {
		mustEnqueue(t, q, func() error { got = append(got, i); return nil })
	}
	if err := q.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if v != i {
			t.Fatalf("work %d ran in place %d", v, i)
		}
	}
	if len(got) != n {
		t.Fatalf("%d of %d pieces of work ran", len(got), n)
	}
}

func TestQueueErrors(t *testing.T) {
	q := newQueue(t)
	ran := false
	mustEnqueue(t, q, fails(errA))
	mustEnqueue(t, q, fails(errB))
	failed := record(t, q)
	again := record(t, q)
	mustEnqueue(t, q, func() error { ran = true; return nil })
	well := record(t, q)

	if err := failed.Wait(t.Context()); !errors.Is(err, errA) {
		t.Errorf("the event behind two failures carries %v, want the first", err)
	}
	if again != failed {
		t.Error("events without work between them differ")
	}
	if err := well.Wait(t.Context()); err != nil || !ran {
		t.Errorf("work behind a failure: ran %v, %v; each piece stands for itself", ran, err)
	}
	if err := q.Synchronize(t.Context()); !errors.Is(err, errA) {
		t.Errorf("Synchronize gives %v, want the first error", err)
	}
	if err := q.Synchronize(t.Context()); err != nil {
		t.Errorf("a second Synchronize gives %v again", err)
	}
	mustEnqueue(t, q, fails(errB))
	if err := q.Close(); !errors.Is(err, errB) {
		t.Errorf("Close gives %v, want the error that no Synchronize returned", err)
	}
}

func TestQueueSurvivesWorkThatDoesNotReturn(t *testing.T) {
	checkNoGoroutines(t)
	for _, c := range []struct {
		name string
		work func() error
		text string
	}{
		{"panic", func() error { panic("out of cheese") }, "out of cheese"},
		{"panic with an error", func() error { panic(errA) }, "a failed"},
		{"nil dereference", func() error { var p *int; *p = 1; return nil }, "nil pointer"},
		{"Goexit", func() error { runtime.Goexit(); return nil }, "Goexit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueue(t)
			before, after := 0, 0
			mustEnqueue(t, q, func() error { before++; return nil })
			mustEnqueue(t, q, c.work)
			e := record(t, q)
			mustEnqueue(t, q, func() error { after++; return nil })
			err := q.Synchronize(t.Context())
			if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("Synchronize gives %v", err)
			}
			if _, eventErr := e.Done(); !errors.Is(eventErr, err) {
				t.Errorf("the event carries %v", eventErr)
			}
			if before != 1 || after != 1 {
				t.Errorf("work before ran %d times, work behind %d times", before, after)
			}
		})
	}
}

func TestQueueWaitsForAnyEvent(t *testing.T) {
	checkNoGoroutines(t)
	q := newQueue(t)
	e := stream.NewEvent()
	var got []string
	note := func(s string) func() error { return func() error { got = append(got, s); return nil } }
	for _, err := range []error{q.Enqueue(note("before")), q.Wait(nil), q.Wait(e), q.Enqueue(note("behind"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := q.Synchronize(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Synchronize of a queue that waits gives %v", err)
	}
	mustEnqueue(t, q, note("late"))
	e.Complete(errA)
	if err := q.Synchronize(t.Context()); !errors.Is(err, errA) {
		t.Errorf("the failure of an event that was waited for gives %v", err)
	}
	if want := "before behind late"; strings.Join(got, " ") != want {
		t.Errorf("ran %v, want %s", got, want)
	}
}

func TestQueueKeepsAnErrorThatAnEndedSynchronizeDidNotReturn(t *testing.T) {
	q := newQueue(t)
	gate := stream.NewEvent()
	if err := q.Wait(gate); err != nil {
		t.Fatal(err)
	}
	mustEnqueue(t, q, fails(errA))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.Synchronize(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("Synchronize gives %v", err)
	}
	gate.Complete(nil)
	if err := q.Synchronize(t.Context()); !errors.Is(err, errA) {
		t.Errorf("the next Synchronize gives %v, want the error of the work", err)
	}
}

func TestQueueRefusesAfterClose(t *testing.T) {
	q := stream.NewQueue(nil)
	ran := false
	mustEnqueue(t, q, func() error { time.Sleep(5 * time.Millisecond); ran = true; return nil })
	var closers sync.WaitGroup
	for range 8 {
		closers.Go(func() {
			if err := q.Close(); err != nil || !ran {
				t.Errorf("Close gives %v, ran %v", err, ran)
			}
		})
	}
	closers.Wait()
	_, recordErr := q.Record()
	for call, err := range map[string]error{
		"Enqueue": q.Enqueue(fails(nil)), "Wait": q.Wait(stream.NewEvent()),
		"Synchronize": q.Synchronize(t.Context()), "Record": recordErr,
	} {
		if !errors.Is(err, core.ErrClosed) {
			t.Errorf("%s after Close gives %v", call, err)
		}
	}
}

func TestQueueSaysWhatItIs(t *testing.T) {
	d := open(t, newBackend(t, coretest.Options{}), 0)
	q := stream.NewQueue(d)
	if q.Device() != d || q.Native() != 0 {
		t.Errorf("Device %v, Native %d", q.Device(), q.Native())
	}
	if live := core.Live()["stream.Queue"]; live != 1 {
		t.Errorf("%d queues are counted, want 1", live)
	}
	if err := q.Enqueue(nil); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("nil work gives %v", err)
	}
	if done, err := record(t, q).Done(); err != nil {
		t.Errorf("the event of an empty queue: %v, %v", done, err)
	}
	if err := errors.Join(q.Close(), q.Close()); err != nil {
		t.Error(err)
	}
}

// A goroutine exists only while there is work: an idle queue that is never closed
// costs memory alone.
func TestIdleQueueHasNoGoroutine(t *testing.T) {
	var queues [100]*stream.Queue
	for i := range queues {
		queues[i] = newQueue(t)
	}
	before := runtime.NumGoroutine()
	for _, q := range queues {
		mustEnqueue(t, q, fails(nil))
		if err := q.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines belong to idle queues", runtime.NumGoroutine()-before)
		}
	}
}
