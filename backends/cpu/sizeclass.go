package cpu

import "math/bits"

// Size classes: the multiples of 256 bytes up to 2 KiB, then eight steps for
// every doubling. Rounding up to a class wastes less than an eighth of the size,
// or less than 256 bytes where that is more.
const (
	alignment = 256 // of every block, in bytes
	maxSize   = 1 << 47
	// numClasses is one more than the class of maxSize.
	numClasses = 296
)

// classOf is the smallest class that holds size bytes, 0 < size <= maxSize.
func classOf(size int64) int {
	last := uint64(size-1) / alignment // index of the last unit of 256 bytes
	shift := max(bits.Len64(last)-4, 0)
	return shift*8 + int(last>>shift)
}

// classSize is the number of bytes of a block of the class.
func classSize(class int) int64 {
	shift := max(class/8-1, 0)
	return int64(class-shift*8+1) * alignment << shift
}
