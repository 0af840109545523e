//go:build !linux

package relay

// thread is always 0: on this system threads cannot be distinguished.
func thread() int { return 0 }
