package backendkit

import "github.com/dlx-go/dlx/internal/live"

// LiveCounter counts the open objects of one kind.
type LiveCounter struct{ count live.Counter }

// NewLiveCounter makes a counter and registers it under name, such as "cpu.Stream", so that
// core.Live returns its count. Call it once for each name, to initialize a package-level
// variable.
func NewLiveCounter(name string) *LiveCounter {
	c := new(LiveCounter)
	live.Count(name, c.count.Load)
	return c
}

// Add adds n to the count; n is negative when objects are closed.
func (c *LiveCounter) Add(n int64) { c.count.Add(n) }

// CountLive registers count under name, so that core.Live returns its result. Use it for
// objects that no [LiveCounter] counts.
func CountLive(name string, count func() int64) { live.Count(name, count) }
