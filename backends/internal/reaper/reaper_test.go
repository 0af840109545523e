package reaper_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/internal/reaper"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// always is a condition that nothing but an empty reaper ends.
func always(int) bool { return true }

// settle waits until the reaper has freed all that was given to it.
func settle(r *reaper.Reaper) {
	var mu sync.Mutex
	mu.Lock()
	defer mu.Unlock()
	r.WaitWhile(context.Background(), &mu, always)
}

func TestNothingIsFreedBeforeAllWorkIsOver(t *testing.T) {
	var r reaper.Reaper
	first, second := stream.NewEvent(), stream.NewEvent()
	var freed atomic.Bool
	r.After([]core.Event{first, nil, second}, func() { freed.Store(true) })
	first.Complete(nil)
	time.Sleep(10 * time.Millisecond)
	if freed.Load() {
		t.Fatal("freed while one of two events was not passed")
	}
	second.Complete(errors.New("the work failed")) // which is over all the same
	settle(&r)
	if !freed.Load() {
		t.Error("not freed, although nothing is left")
	}
}

func TestNoWorkFreesSoon(t *testing.T) {
	for name, pending := range map[string][]core.Event{"none": nil, "a nil event": {nil}} {
		t.Run(name, func(t *testing.T) {
			var r reaper.Reaper
			freed := make(chan struct{})
			r.After(pending, func() { close(freed) })
			<-freed
		})
	}
}

func TestWorkThatNeverEndsHoldsNothingElseBack(t *testing.T) {
	var r reaper.Reaper
	stuck, freed := stream.NewEvent(), make(chan struct{})
	r.After([]core.Event{stuck}, func() {})
	r.After([]core.Event{passed{}}, func() { close(freed) })
	<-freed
	stuck.Complete(nil)
	settle(&r)
}

// passed is an event of work that is over.
type passed struct{}

func (passed) Done() (bool, error)        { return true, nil }
func (passed) Wait(context.Context) error { return nil }

// deaf is an event that only Wait knows to be over, since its driver tells no status.
type deaf struct{ asked *atomic.Int64 }

func (d deaf) Done() (bool, error)        { d.asked.Add(1); return false, nil }
func (d deaf) Wait(context.Context) error { return errors.New("the device is lost") }

func TestAnEventWhoseWaitFailsIsOver(t *testing.T) {
	var r reaper.Reaper
	var asked atomic.Int64
	r.After([]core.Event{deaf{&asked}}, func() {})
	settle(&r)
	if n := asked.Load(); n > 10 {
		t.Errorf("asked %d times", n)
	}
}

func TestWaitWhileEndsWhenItsConditionDoes(t *testing.T) {
	var r reaper.Reaper
	var mu sync.Mutex
	stuck, other := stream.NewEvent(), stream.NewEvent()
	r.After([]core.Event{stuck}, func() {})
	r.After([]core.Event{other}, func() {
		mu.Lock() // which WaitWhile has let go of
		defer mu.Unlock()
	})
	var seen []int
	mu.Lock()
	r.WaitWhile(t.Context(), &mu, func(left int) bool {
		if seen = append(seen, left); len(seen) == 1 {
			other.Complete(nil)
		}
		return left > 1
	})
	mu.Unlock()
	if len(seen) != 2 || seen[0] != 2 || seen[1] != 1 {
		t.Errorf("left, as told: %v, want 2 and then 1", seen)
	}
	stuck.Complete(nil)
	settle(&r)
}

func TestManyGoroutinesReleaseAtOnce(t *testing.T) {
	var r reaper.Reaper
	var freed atomic.Int64
	var work sync.WaitGroup
	const each = 200
	for range 8 {
		work.Go(func() {
			for range each {
				e := stream.NewEvent()
				r.After([]core.Event{e}, func() {
					if done, _ := e.Done(); !done {
						t.Error("freed too early")
					}
					freed.Add(1)
				})
				e.Complete(nil)
			}
		})
	}
	work.Wait()
	settle(&r)
	if n := freed.Load(); n != 8*each {
		t.Errorf("%d of %d freed", n, 8*each)
	}
}
