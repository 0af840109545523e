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
