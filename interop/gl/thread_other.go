//go:build !linux

package gl

// currentThread is the same for all: where Wrap fails, no loop has a context.
func currentThread() int { return 0 }
