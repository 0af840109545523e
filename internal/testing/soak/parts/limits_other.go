//go:build !unix

package parts

// Limits are what a process may have beyond what it has; 0 is no limit.
type Limits struct {
	Descriptors int
	Memory      int64 // bytes of its address space
}

// Set does nothing: limits are set on Unix only.
func (l Limits) Set() error { return nil }
