package core

import (
	"maps"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// counters holds the counters of live objects, which show whether a program closed
// everything. They are global because a leak concerns the whole process.
var counters struct {
	mu    sync.Mutex
	count map[string]func() int64
}

// LiveCounter counts the open objects of one kind.
type LiveCounter struct{ n atomic.Int64 }

// NewLiveCounter makes a counter and registers it under name, such as "cpu.Stream", so that
// [Live] returns its count. Call it once for each name, to initialize a package-level
// variable.
func NewLiveCounter(name string) *LiveCounter {
	c := new(LiveCounter)
	CountLive(name, c.n.Load)
	return c
}

// Add adds n to the count; n is negative when objects are closed.
func (c *LiveCounter) Add(n int64) { c.n.Add(n) }

// CountLive registers count under name, so that [Live] returns its result. Use it for
// objects that no [LiveCounter] counts.
func CountLive(name string, count func() int64) {
	counters.mu.Lock()
	defer counters.mu.Unlock()
	if counters.count == nil {
		counters.count = make(map[string]func() int64)
	}
	counters.count[name] = count
}

// Live returns the number of open objects of each kind in this process, by name.
func Live() map[string]int64 {
	counters.mu.Lock()
	count := maps.Clone(counters.count)
	counters.mu.Unlock()
	live := make(map[string]int64, len(count)+2)
	for name, f := range count {
		live[name] = f()
	}
	// The functions above may release tensors and buffers, so count these last.
	closed, freed := closedTensors.Load(), freedBuffers.Load()
	tensors := wrapped.handedOut()
	live["core.Buffer"] = tensors - freed
	live["core.Tensor"] = tensors + views.handedOut() - closed
	return live
}

// lost counts the tensors that closeLost closed.
var lost atomic.Int64

// Leaked returns the number of tensors that the program lost without closing them since it
// started, as far as the garbage collector has found and closed them.
func Leaked() int64 { return lost.Load() }

// traces holds, for each open tensor that was made while tracing was on, the stack that
// made it.
var traces struct {
	on  atomic.Bool
	any atomic.Bool // whether a tensor was ever traced
	mu  sync.Mutex
	pc  map[*share][]uintptr
}

// TraceTensors switches the tracing of tensors on or off. While it is on, each new tensor
// records the stack of the goroutine that made it; [OpenTensors] returns these stacks. It
// costs about a microsecond for each tensor.
func TraceTensors(on bool) { traces.on.Store(on) }

// OpenTensors returns the stack that made each open tensor, for the tensors that were made
// while tracing was on; see [TraceTensors].
func OpenTensors() []string {
	traces.mu.Lock()
	defer traces.mu.Unlock()
	var stacks []string
	for _, pc := range traces.pc {
		stacks = append(stacks, stackOf(pc))
	}
	return stacks
}

// stackOf formats a stack. Each call takes two lines: the function, and the file with the
// line.
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

// traceOpen records the stack that made the tensor of s. It leaves out the innermost calls,
// which belong to this package.
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
