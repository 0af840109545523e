package float

// shortest is the length from which on the vector instructions take slices. They convert the
// elements that are left at the end together with some before them, which they convert twice.
const shortest = 8

// longest bounds one call of the vector instructions to some 50 microseconds: Go cannot stop a
// goroutine in assembly, and the garbage collector would wait for it.
const longest = 64 << 10

// ToFloat16 converts elements of src as [NewFloat16] does, and stores them in dst. It returns
// how many it converted, which is the smaller one of the lengths. The slices must not share
// memory.
func ToFloat16(dst []Float16, src []float32) int {
	return convert(dst, src, toFloat16, vectorToFloat16)
}

// FromFloat16 converts elements of src as [Float16.Float32] does, and stores them in dst. It
// returns how many it converted, which is the smaller one of the lengths. The slices must not
// share memory.
func FromFloat16(dst []float32, src []Float16) int {
	return convert(dst, src, fromFloat16, vectorFromFloat16)
}

// ToBFloat16 converts elements of src as [NewBFloat16] does, and stores them in dst. It returns
// how many it converted, which is the smaller one of the lengths. The slices must not share
// memory.
func ToBFloat16(dst []BFloat16, src []float32) int {
	return convert(dst, src, toBFloat16, vectorToBFloat16)
}

// FromBFloat16 converts elements of src as [BFloat16.Float32] does, and stores them in dst. It
// returns how many it converted, which is the smaller one of the lengths. The slices must not
// share memory.
func FromBFloat16(dst []float32, src []BFloat16) int {
	return convert(dst, src, fromBFloat16, vectorFromBFloat16)
}

func convert[To, From any](to []To, from []From, portable func([]To, []From), vector func(to *To, from *From, n int)) int {
	n := min(len(to), len(from))
	to, from = to[:n], from[:n]
	if !vectors || n < shortest {
		portable(to, from)
		return n
	}
	for len(from) >= longest+shortest { // so that enough are left
		vector(&to[0], &from[0], longest)
		to, from = to[longest:], from[longest:]
	}
	vector(&to[0], &from[0], len(from))
	return n
}
