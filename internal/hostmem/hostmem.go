// Package hostmem is about memory of the host that Go does not know enough of. It makes an error of memory that the system
// refuses: the built-in make ends the process then, and panics for sizes that no address space has. It also finds out whether
// the host can write memory of other libraries.
package hostmem

import (
	"errors"
	"math"
)

// Large is the size in bytes from which on this package asks the system. It is the size of an arena of Go's heap: for less
// memory the heap seldom needs the system.
const Large = 64 << 20

// most is the largest size in bytes that make does not panic for, whatever the system says: more than any machine has.
const most = min(1<<46, math.MaxInt/2)

var errTooLarge = errors.New("no machine has so much memory")

// Check returns an error if the system does not have size bytes now. Call it before the built-in make for a size that comes
// from a shape, a file or another program. Memory that other goroutines take between Check and make is not counted.
func Check(size int64) error {
	switch {
	case size > most:
		return errTooLarge
	case size < Large || !asks:
		return nil
	}
	// The heap takes whole arenas, and needs a part of an arena more to align them, and memory to manage them.
	data, err := mapMemory(int(size + size>>8 + 2*Large))
	if err != nil {
		return err
	}
	return unmap(data)
}

// Map returns size bytes of zeros, of Large and more, that do not lie in Go's heap. The caller passes them to Unmap.
func Map(size int64) ([]byte, error) {
	if size > most {
		return nil, errTooLarge
	}
	return mapMemory(int(size))
}

// Unmap frees memory of Map.
func Unmap(data []byte) { _ = unmap(data) } // it cannot fail for exactly what was mapped
