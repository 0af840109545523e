// Package half converts slices of float32 to the two floating-point types of 16 bits, float16
// and bfloat16, and back. Float32 is rounded to the nearest, ties to even. Of a NaN's payload,
// the upper bits are kept; it becomes quiet when it is rounded, and stays what it is when it
// is not.
//
// Where the processor has vector instructions for this, they are used, with the same results
// to the bit. In all functions, to is at least as long as from and shares no memory with it.
package half

// shortest is the length from which on the vector instructions take slices. They convert the
// elements that are left at the end together with some before them, which they convert twice.
const shortest = 8

// longest bounds one call of the vector instructions to some 50 microseconds: Go cannot stop a
// goroutine in assembly, and the garbage collector would wait for it.
const longest = 64 << 10

// ToFloat16 converts float32 to the bits of float16.
func ToFloat16(to []uint16, from []float32) {
	convert(to, from, toFloat16, vectorToFloat16)
}

// FromFloat16 converts the bits of float16 to float32.
func FromFloat16(to []float32, from []uint16) {
	convert(to, from, fromFloat16, vectorFromFloat16)
}

// ToBFloat16 converts float32 to the bits of bfloat16.
func ToBFloat16(to []uint16, from []float32) {
	convert(to, from, toBFloat16, vectorToBFloat16)
}

// FromBFloat16 converts the bits of bfloat16 to float32.
func FromBFloat16(to []float32, from []uint16) {
	convert(to, from, fromBFloat16, vectorFromBFloat16)
}

func convert[To, From any](to []To, from []From, portable func([]To, []From), vector func(to *To, from *From, n int)) {
	to = to[:len(from)]
	if !vectors || len(from) < shortest {
		portable(to, from)
		return
	}
	for len(from) >= longest+shortest { // so that enough are left
		vector(&to[0], &from[0], longest)
		to, from = to[longest:], from[longest:]
	}
	vector(&to[0], &from[0], len(from))
}
