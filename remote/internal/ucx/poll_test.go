//go:build ucx && linux && cgo

package ucx_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/remote/internal/ucx"
)

// stacks returns the stacks of one goroutine, or of all.
func stacks(all bool) string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, all)])
}

// A Poll may take long while data comes. If the goroutine of the worker waited for its lock meanwhile, each end of a Poll would wake a
// thread on the processor that polls.
func TestOnlyOneMakesProgress(t *testing.T) {
	const polls = "(*Worker).Poll"
	waiting := make(chan string, 10)
	b, err := ucx.NewWorker(100, ucx.Handler{
		Arrived: func(*ucx.Message) bool {
			if !strings.Contains(stacks(false), polls) { // the goroutine of the worker was faster
				return false
			}
			time.Sleep(20 * time.Millisecond)
			found := ""
			for g := range strings.SplitSeq(stacks(true), "\n\n") {
				if strings.Contains(g, "(*Worker).settle") && strings.Contains(g, "Mutex") {
					found = g
				}
			}
			waiting <- found
			return false
		},
		Broken: func(error) {}, Dropped: func() {},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	a := open(t, 100)
	if err := errors.Join(a.Connect(b.Address()), b.Connect(a.Address())); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // the goroutine of the worker has begun before the first Poll
	for end := time.Now().Add(10 * time.Second); ; {
		if err := a.Send([]byte("header"), 0, 0, false, func(error) {}); err != nil {
			t.Fatal(err)
		}
		for again := time.Now().Add(10 * time.Millisecond); time.Now().Before(again); {
			b.Poll()
		}
		select {
		case g := <-waiting:
			if g != "" {
				t.Errorf("the goroutine of the worker waits for a Poll:\n%s", g)
			}
			return
		default:
		}
		if time.Now().After(end) {
			t.Fatal("no Poll has found a message")
		}
	}
}
