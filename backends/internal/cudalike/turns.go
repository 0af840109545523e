package cudalike

import (
	"maps"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// Turns is the work of the host in streams, by the numbers that the driver calls back with.
type Turns struct {
	live    *core.LiveCounter // of what is waiting
	mu      sync.Mutex
	last    uintptr
	waiting map[uintptr]work
	running map[ContextID]int
}

type work struct {
	context ContextID
	do      func()
}

// NewTurns makes the turns of a driver. It is called once, when the program starts.
func NewTurns(backend string) *Turns {
	return &Turns{
		live:    core.NewLiveCounter(backend + ".HostTurn"),
		waiting: make(map[uintptr]work), running: make(map[ContextID]int),
	}
}

// Add returns the number of work in a stream of a context.
func (t *Turns) Add(c ContextID, do func()) uintptr {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.waiting[t.last] = work{c, do}
	t.live.Add(1)
	return t.last
}

// Run does the work of a number, unless it was dropped. The driver calls it.
func (t *Turns) Run(n uintptr) {
	w, ok := t.take(n, 1)
	if !ok {
		return
	}
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.running[w.context]--; t.running[w.context] == 0 {
			delete(t.running, w.context)
		}
	}()
	w.do()
}

// Drop forgets the work of a number, which the driver has refused.
func (t *Turns) Drop(n uintptr) { t.take(n, 0) }

// take returns the work of a number once, and counts what runs from then on.
func (t *Turns) take(n uintptr, runs int) (w work, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w, ok = t.waiting[n]; ok {
		delete(t.waiting, n)
		t.live.Add(-1)
		t.running[w.context] += runs
	}
	return w, ok
}

// Running reports whether the host is at work in a stream of the context: it uses its memory
// even if the context has failed meanwhile.
func (t *Turns) Running(c ContextID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running[c] > 0
}

// Forget drops what never runs, since the context has failed.
func (t *Turns) Forget(c ContextID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.waiting, func(_ uintptr, w work) bool {
		if w.context == c {
			t.live.Add(-1)
		}
		return w.context == c
	})
}
