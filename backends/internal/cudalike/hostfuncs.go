package cudalike

import (
	"maps"
	"sync"

	"github.com/dlx-go/dlx/internal/live"
)

// HostFuncs keeps the host functions that were enqueued on streams. Each has a number, since the driver can
// hold no Go pointer: it calls back with the number.
type HostFuncs struct {
	live    *live.Counter // functions that have not begun
	mu      sync.Mutex
	last    uintptr
	waiting map[uintptr]hostFunc
	running map[ContextID]int
}

type hostFunc struct {
	context ContextID
	f       func()
}

// NewHostFuncs must be called once for a driver, when the program starts.
func NewHostFuncs(backend string) *HostFuncs {
	return &HostFuncs{
		live:    live.NewCounter(backend + ".HostFunc"),
		waiting: make(map[uintptr]hostFunc), running: make(map[ContextID]int),
	}
}

// Add keeps f, which will run in a stream of the context c, and returns its number.
func (h *HostFuncs) Add(c ContextID, f func()) uintptr {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	h.waiting[h.last] = hostFunc{c, f}
	h.live.Add(1)
	return h.last
}

// Run calls function n, unless it was dropped. The driver calls Run.
func (h *HostFuncs) Run(n uintptr) {
	w, ok := h.take(n, 1)
	if !ok {
		return
	}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.running[w.context]--; h.running[w.context] == 0 {
			delete(h.running, w.context)
		}
	}()
	w.f()
}

// Drop removes function n, which the driver has not accepted.
func (h *HostFuncs) Drop(n uintptr) { h.take(n, 0) }

// take removes function n, and adds running to the number of running functions.
func (h *HostFuncs) take(n uintptr, running int) (w hostFunc, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w, ok = h.waiting[n]; ok {
		delete(h.waiting, n)
		h.live.Add(-1)
		h.running[w.context] += running
	}
	return w, ok
}

// Running reports whether a function of the context is running. A running function goes on using its memory
// even if the context fails.
func (h *HostFuncs) Running(c ContextID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running[c] > 0
}

// DropAll removes the functions of a context that has failed: the driver will not call them.
func (h *HostFuncs) DropAll(c ContextID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.waiting, func(_ uintptr, w hostFunc) bool {
		if w.context == c {
			h.live.Add(-1)
		}
		return w.context == c
	})
}
