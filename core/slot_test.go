package core_test

import (
	"runtime"
	"sync"
	"testing"

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
	before := core.Live()
	const goroutines = 32
	var holding, ended sync.WaitGroup
	holding.Add(goroutines)
	stop := make(chan struct{})
	for range goroutines {
		ended.Go(func() {
			held, err := core.FromSlice([]byte{1})
			holding.Done()
			for running := true; err == nil && running; {
				var next, view *core.Tensor
				if next, err = core.FromSlice([]byte{1}); err != nil {
					break
				}
				if view, err = next.Share(); err == nil {
					_ = view.Close()
				}
				_, refused := core.FromSlice([]byte{1}, 2, 2)
				if refused == nil {
					t.Error("4 elements of a slice of 1")
				}
				_ = held.Close()
				held = next
				select {
				case <-stop:
					running = false
				default:
				}
			}
			if err != nil {
				t.Error(err)
			}
			_ = held.Close()
		})
	}
	holding.Wait()
	for range 200 {
		now := core.Live()
		for _, kind := range []string{"core.Tensor", "core.Buffer"} {
			if n := now[kind] - before[kind]; n < goroutines {
				t.Errorf("%d of %s are open, want %d or more", n, kind, goroutines)
			}
		}
		runtime.Gosched()
	}
	close(stop)
	ended.Wait()
	after := core.Live()
	for _, kind := range []string{"core.Tensor", "core.Buffer"} {
		if after[kind] != before[kind] {
			t.Errorf("%d of %s are open, before there were %d", after[kind], kind, before[kind])
		}
	}
}
