package core

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/internal/live"
)

// Live returns the number of open objects of each kind in this process, by name, such as
// "core.Tensor" or "cuda.Stream". It shows whether a program closed everything.
func Live() map[string]int64 {
	open := live.Counts()
	// The counters may release tensors and buffers, so count these last.
	open["core.Buffer"], open["core.Tensor"] = openCounts()
	return open
}

// lost counts the tensors that closeLost closed.
var lost atomic.Int64

func init() {
	if on := os.Getenv("DLX_TRACE_OPEN"); on != "" && on != "0" {
		TraceOpen(true)
	}
}

// TraceOpen switches the tracing of open objects on or off. While it is on, each new tensor
// records the stack of the goroutine that made it, and so does each stream, memory and other
// object of the backends. [OpenTensors] returns the stacks of open tensors. If a device cannot
// be closed because objects are open, the error lists their stacks, too. Tracing costs about a
// microsecond for each object. The environment variable DLX_TRACE_OPEN=1 switches it on at the
// start of the program.
func TraceOpen(on bool) { live.Tracing.Store(on) }

// traces holds, for each open tensor that was made while tracing was on, the stack that
// made it.
var traces struct {
	any atomic.Bool // whether a tensor was ever traced
	mu  sync.Mutex
	pc  map[*share][]uintptr
}

// OpenTensors returns the stack that made each open tensor, for the tensors that were made
// while tracing was on; see [TraceOpen].
func OpenTensors() []string {
	traces.mu.Lock()
	defer traces.mu.Unlock()
	var stacks []string
	for _, pc := range traces.pc {
		stacks = append(stacks, live.Format(pc))
	}
	return stacks
}

// OpenTensorsOn returns the stacks that made the open tensors of a device, as far as they were traced.
func (privateCore) OpenTensorsOn(device DeviceID) (stacks [][]uintptr) {
	if !traces.any.Load() {
		return nil
	}
	traces.mu.Lock()
	defer traces.mu.Unlock()
	for share, pc := range traces.pc {
		if b := share.buf.Load(); b != nil && b.mem.Device != nil && b.mem.Device.ID() == device {
			stacks = append(stacks, pc)
		}
	}
	return stacks
}

// traceOpen records the stack that made the tensor of s. It leaves out the innermost calls,
// which belong to this package.
func traceOpen(s *share) {
	pc := live.Stack(2)
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
