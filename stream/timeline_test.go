package stream_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

func TestTimelineOnlyGrows(t *testing.T) {
	l := stream.NewTimeline()
	defer l.Close()
	q := newQueue(t)
	for _, step := range []struct {
		call  string
		value uint64
		err   error
	}{
		{"Set", 0, core.ErrInvalid}, // it starts there
		{"Set", 3, nil},
		{"Set", 3, core.ErrInvalid},
		{"Set", 2, core.ErrInvalid},
		{"Signal", 3, core.ErrInvalid},
		{"Signal", 5, nil},
		{"Signal", 5, core.ErrInvalid}, // known at once, whether the work has run or not
		{"Signal", 4, core.ErrInvalid},
		{"Set", 1 << 63, nil},
		{"Set", ^uint64(0), nil},
	} {
		var err error
		if step.call == "Set" {
			err = l.Set(step.value)
		} else {
			err = l.Signal(q, step.value)
		}
		if err := q.Synchronize(t.Context()); err != nil {
			t.Errorf("%s(%d) enqueued work that fails: %v", step.call, step.value, err)
		}
		if !errors.Is(err, step.err) {
			t.Errorf("%s(%d) gives %v, want %v", step.call, step.value, err, step.err)
		}
	}
	if v, err := l.Value(); v != ^uint64(0) || err != nil {
		t.Errorf("Value gives %d, %v", v, err)
	}
}

func TestTimelineSignalOvertakenBySetFailsItsQueue(t *testing.T) {
	l := stream.NewTimeline()
	defer l.Close()
	q := newQueue(t)
	gate := stream.NewEvent()
	if err := errors.Join(q.Wait(gate), l.Signal(q, 5)); err != nil {
		t.Fatal(err)
	}
	if err := l.Signal(q, 5); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a value that is enqueued already gives %v", err)
	}
	if err := l.Set(7); err != nil {
		t.Fatal(err)
	}
	gate.Complete(nil)
	if err := q.Synchronize(t.Context()); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("the queue that would set 5 after 7 gives %v", err)
	}
	if v, _ := l.Value(); v != 7 {
		t.Errorf("the value went back to %d", v)
	}
}

// atOnce is a stream whose work is always done: new work runs before Enqueue returns.
type atOnce struct{ core.Stream }

func (atOnce) Enqueue(work func() error) error { return work() }

func TestTimelineSignalsOnAStreamThatRunsWorkAtOnce(t *testing.T) {
	l := stream.NewTimeline()
	defer l.Close()
	if err := l.Signal(atOnce{}, 3); err != nil {
		t.Error(err)
	}
	if v, err := l.Value(); v != 3 || err != nil {
		t.Errorf("Value gives %d, %v", v, err)
	}
	for _, value := range []uint64{2, 3} {
		if err := l.Signal(atOnce{}, value); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("Signal(%d) after 3 gives %v", value, err)
		}
	}
}

// A value that could not be enqueued may be signaled again.
func TestTimelineSignalThatFailsPromisesNothing(t *testing.T) {
	l := stream.NewTimeline()
	defer l.Close()
	q := stream.NewQueue(nil)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Signal(q, 3); !errors.Is(err, core.ErrClosed) {
		t.Errorf("on a stream that was closed: %v", err)
	}
	if err := l.Signal(newQueue(t), 2); err != nil {
		t.Error(err)
	}
}

func TestTimelineOrdersQueues(t *testing.T) {
	checkNoGoroutines(t)
	l := stream.NewTimeline()
	defer l.Close()
	const rounds = 100
	var got []int
	queues := [2]*stream.Queue{newQueue(t), newQueue(t)}
	for i := range 2 * rounds { // the two take turns
		q := queues[i%2]
		for _, err := range []error{
			l.WaitOn(q, uint64(i)),
			q.Enqueue(func() error { got = append(got, i); return nil }),
			l.Signal(q, uint64(i+1)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Wait(t.Context(), 2*rounds); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if i != v {
			t.Fatalf("turn %d came in place %d", v, i)
		}
	}
}

func TestTimelineWaitEndsWithItsContext(t *testing.T) {
	checkNoGoroutines(t)
	l := stream.NewTimeline()
	defer l.Close()
	short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := l.Wait(short, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait gives %v", err)
	}
	if err := l.Wait(short, 0); err != nil {
		t.Errorf("a value that was reached wins over an ended context; got %v", err)
	}
}

func TestTimelineCloseEndsWaits(t *testing.T) {
	checkNoGoroutines(t)
	l := stream.NewTimeline()
	q := newQueue(t)
	if err := errors.Join(l.Set(1), l.WaitOn(q, 2)); err != nil {
		t.Fatal(err)
	}
	var waiters sync.WaitGroup
	for range 8 {
		waiters.Go(func() {
			if err := l.Wait(context.Background(), 2); !errors.Is(err, core.ErrClosed) {
				t.Errorf("Wait gives %v", err)
			}
		})
	}
	passed, never := l.At(1), l.At(2)
	time.Sleep(5 * time.Millisecond) // so that most of them sleep by now
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	waiters.Wait()
	if err := q.Synchronize(t.Context()); !errors.Is(err, core.ErrClosed) {
		t.Errorf("a queue that waited gives %v", err)
	}
	if done, err := passed.Done(); !done || err != nil {
		t.Errorf("the event of a value that was reached: %v, %v", done, err)
	}
	if done, err := never.Done(); !done || !errors.Is(err, core.ErrClosed) {
		t.Errorf("the event of a value that will never be: %v, %v", done, err)
	}
	_, valueErr := l.Value()
	for call, err := range map[string]error{
		"Value": valueErr, "Set": l.Set(9), "Signal": l.Signal(q, 9), "WaitOn": l.WaitOn(q, 9), "Wait": l.Wait(t.Context(), 9),
	} {
		if !errors.Is(err, core.ErrClosed) {
			t.Errorf("%s after Close gives %v", call, err)
		}
	}
}

func TestTimelineOnStreamsThatCannot(t *testing.T) {
	l := stream.NewTimeline()
	defer l.Close()
	device := newStream(t, open(t, newBackend(t, coretest.Options{}), 0))
	if err := l.WaitOn(device, 1); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("a device that waits for the host: %v", err)
	}
	if err := l.Signal(bare{device}, 1); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("a device that signals the host: %v", err)
	}
	if err := l.Signal(nil, 1); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("Signal on nil: %v", err)
	}
	if err := l.WaitOn(nil, 1); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("WaitOn nil: %v", err)
	}
	closed := stream.NewQueue(nil)
	_ = closed.Close()
	if err := l.Signal(closed, 1); !errors.Is(err, core.ErrClosed) {
		t.Errorf("Signal on a closed queue: %v", err)
	}
	if err := l.Signal(newQueue(t), 1); err != nil {
		t.Errorf("a signal that was refused must not count: %v", err)
	}
}

// bare is a stream that offers nothing but core.Stream.
type bare struct{ core.Stream }
