package core_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// A tensor that is being closed is not lost, although nothing refers to it after the call began.
func TestACloseBesideTheGarbageCollector(t *testing.T) {
	coretest.CheckNoLeaks(t)
	values := make([]float32, 4)
	var closers sync.WaitGroup
	for range 100 {
		closers.Go(func() {
			for range 5_000 {
				x, err := core.FromSlice(values)
				if err != nil {
					t.Error(err)
					return
				}
				if err := x.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { closers.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		default:
			runtime.GC()
		}
	}
}

// Live counts each open tensor while others are made and closed by many goroutines, and counts exactly when they have ended.
func TestLiveBesideManyGoroutines(t *testing.T) {
	coretest.CheckNoLeaks(t)
	leaveChunk(t) // so that what other tests lost is closed now, and not while this one counts
	before := core.Live()
	for settled := false; !settled; {
		runtime.GC()
		time.Sleep(time.Millisecond)
		now := core.Live()
		settled = now["core.Tensor"] == before["core.Tensor"] && now["core.Buffer"] == before["core.Buffer"]
		before = now
	}
	const goroutines, rounds = 32, 2000
	var holding, going sync.WaitGroup
	holding.Add(goroutines)
	stop := make(chan struct{}) // closed when the last count was made
	for range goroutines {
		going.Go(func() {
			held, err := core.FromSlice([]byte{1})
			holding.Done()
			for i := 0; err == nil && i < rounds; i++ {
				var next, view *core.Tensor
				if next, err = core.FromSlice([]byte{1}); err != nil {
					break
				}
				if view, err = next.Share(); err == nil {
					_ = view.Close()
				}
				if _, refused := core.FromSlice([]byte{1}, 2, 2); refused == nil {
					t.Error("4 elements of a slice of 1")
				}
				_ = held.Close()
				held = next
			}
			if err != nil {
				t.Error(err)
			}
			<-stop
			_ = held.Close()
		})
	}
	holding.Wait()
	for range 50 {
		now := core.Live()
		for _, kind := range []string{"core.Tensor", "core.Buffer"} {
			if n := now[kind] - before[kind]; n < goroutines {
				t.Errorf("%d of %s are open, want %d or more", n, kind, goroutines)
			}
		}
		time.Sleep(100 * time.Microsecond)
	}
	close(stop)
	going.Wait()
	after := core.Live()
	for _, kind := range []string{"core.Tensor", "core.Buffer"} {
		if after[kind] > before[kind] {
			t.Errorf("%d of %s are open, before there were %d", after[kind], kind, before[kind])
		}
	}
}
