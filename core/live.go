package core

import (
	"maps"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Counters of live objects tell whether a program gave everything back. They are
// the one global state of this package, since a leak is a fact about a process.
var counters struct {
	mu    sync.Mutex
	count map[string]func() int64
}

// LiveCounter counts the open objects of one kind.
type LiveCounter struct{ n atomic.Int64 }

// NewLiveCounter makes a counter and lists it under name ("cpu.Stream") in [Live].
// It belongs into a package-level variable.
func NewLiveCounter(name string) *LiveCounter {
	c := new(LiveCounter)
	CountLive(name, c.n.Load)
	return c
}

// Add changes the count by n.
func (c *LiveCounter) Add(n int64) { c.n.Add(n) }

// CountLive lists under name what count returns, for kinds that are counted by other means.
func CountLive(name string, count func() int64) {
	counters.mu.Lock()
	defer counters.mu.Unlock()
	if counters.count == nil {
		counters.count = make(map[string]func() int64)
	}
	counters.count[name] = count
}

// Live returns how many objects of each kind are open in this process.
func Live() map[string]int64 {
	counters.mu.Lock()
	count := maps.Clone(counters.count)
	counters.mu.Unlock()
	live := make(map[string]int64, len(count)+2)
	for name, f := range count {
		live[name] = f()
	}
	// Last, since counting may give back what was only not collected yet.
	closed, freed := closedTensors.Load(), freedBuffers.Load()
	tensors := wrapped.handedOut()
	live["core.Buffer"] = tensors - freed
	live["core.Tensor"] = tensors + views.handedOut() - closed
	return live
}

// lost counts what the net closed.
var lost atomic.Int64

// Leaked is how many tensors became unreachable without Close since the program
// started; the garbage collector's safety net closed them.
func Leaked() int64 { return lost.Load() }

// traces keeps the stacks that made the open tensors, while tracing is on.
var traces struct {
	on  atomic.Bool
	any atomic.Bool // whether a tensor was ever traced
	mu  sync.Mutex
	pc  map[*share][]uintptr
}

// TraceTensors switches on or off that each new tensor records the stack that
// made it, for [OpenTensors]. It costs about a microsecond a tensor.
func TraceTensors(on bool) { traces.on.Store(on) }

// OpenTensors returns, for each open tensor that was made while tracing was on,
// the stack that made it.
func OpenTensors() []string {
	traces.mu.Lock()
	defer traces.mu.Unlock()
	var stacks []string
	for _, pc := range traces.pc {
		stacks = append(stacks, stackOf(pc))
	}
	return stacks
}

// stackOf prints a stack: of each call the function, and a line below it the place.
func stackOf(pc []uintptr) string {
	var b strings.Builder
	frames := runtime.CallersFrames(pc)
	for {
		f, more := frames.Next()
		b.WriteString(f.Function + "\n\t" + f.File + ":" + strconv.Itoa(f.Line) + "\n")
		if !more {
			return b.String()
		}
	}
}

// traceOpen records the stack of the caller's caller's caller.
func traceOpen(s *share) {
	pc := make([]uintptr, 32)
	pc = pc[:runtime.Callers(3, pc)]
	traces.mu.Lock()
	defer traces.mu.Unlock()
	if traces.pc == nil {
		traces.pc = make(map[*share][]uintptr)
	}
	traces.pc[s] = pc
	traces.any.Store(true)
}

func traceClose(s *share) {
	traces.mu.Lock()
	defer traces.mu.Unlock()
	delete(traces.pc, s)
}
