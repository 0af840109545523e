// Package live keeps the counts of open objects that core.Live returns, and records the stacks that core.TraceOpen asks
// for. Packages of this module that cannot import backendkit count their objects here.
package live

import (
	"maps"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// counts holds the counters by name. They are global because a leak concerns the whole process.
var counts struct {
	mu    sync.Mutex
	count map[string]func() int64
	named map[string]*Counter // that Named made
}

// Counter counts the open objects of one kind.
type Counter struct{ n atomic.Int64 }

// NewCounter makes a counter and registers it under name, such as "stream.Queue". Call it once for each name, to
// initialize a package-level variable.
func NewCounter(name string) *Counter {
	c := new(Counter)
	Count(name, c.Load)
	return c
}

// Named returns the counter that is registered under name. It makes one if there is none.
func Named(name string) *Counter {
	counts.mu.Lock()
	defer counts.mu.Unlock()
	c := counts.named[name]
	if c == nil {
		c = new(Counter)
		if counts.named == nil {
			counts.named = make(map[string]*Counter)
		}
		counts.named[name] = c
	}
	return c
}

// Add adds n to the count; n is negative when objects are closed.
func (c *Counter) Add(n int64) { c.n.Add(n) }

// Load returns the count.
func (c *Counter) Load() int64 { return c.n.Load() }

// Count registers count under name. Use it for objects that no [Counter] counts.
func Count(name string, count func() int64) {
	counts.mu.Lock()
	defer counts.mu.Unlock()
	if counts.count == nil {
		counts.count = make(map[string]func() int64)
	}
	counts.count[name] = count
}

// Counts returns the number of open objects by name. The caller may change the result.
func Counts() map[string]int64 {
	counts.mu.Lock()
	count, named := maps.Clone(counts.count), maps.Clone(counts.named)
	counts.mu.Unlock()
	live := make(map[string]int64, len(count)+2)
	for name, f := range count {
		live[name] = f()
	}
	for name, c := range named {
		live[name] += c.Load()
	}
	return live
}

// Tracing is set while new objects record the stack that opened them.
var Tracing atomic.Bool

// Stack returns the stack of the goroutine without the innermost calls. skip is their number, of which the function that
// calls Stack is the first.
func Stack(skip int) []uintptr {
	pc := make([]uintptr, 32)
	return pc[:runtime.Callers(2+skip, pc)]
}

// Format formats a stack. Each call takes two lines: the function, and the file with the line.
func Format(pc []uintptr) string {
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
