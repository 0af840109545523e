// Package affine scales rows of numbers: each x becomes x*scale + offset in float32. The product and the
// sum are both rounded to float32, never fused, so that every processor computes the same bits.
package affine

import (
	"math"
	"unsafe"
)

// longest bounds one call of the vector instructions to some 50 microseconds: Go cannot stop a goroutine in
// assembly, and the garbage collector would wait for it.
const longest = 64 << 10

// maxStep is the largest distance of bytes that the vector instructions pick: four of them lie in 16 bytes.
const maxStep = 5

// FromUint8 sets to[i] to the byte at from + i*step, scaled. step may be negative or 0. It reads only
// memory between the first and the last of these bytes.
func FromUint8(to []float32, from unsafe.Pointer, step int64, scale, offset float32) {
	n := int64(len(to))
	if n == 0 {
		return
	}
	backward := step < 0
	if backward { // the same bytes in the other order
		from, step = unsafe.Add(from, (n-1)*step), -step
	}
	i := int64(0) // counts the bytes in the order of memory
	if vectors && step > 0 && step <= maxStep {
		for groups := wholeGroups(n, step); i < groups*8; {
			part := min(groups*8-i, longest)
			// The address of the first group is formed from the base: a pointer past the end of a Go object is an error.
			vectorFromUint8Row(to, unsafe.Add(from, i*step), step, i, part, backward, scale, offset)
			i += part
		}
	}
	if backward {
		for ; i < n; i++ {
			to[n-1-i] = float32(float32(*(*uint8)(unsafe.Add(from, i*step)))*scale) + offset
		}
		return
	}
	for ; i < n; i++ {
		to[i] = float32(float32(*(*uint8)(unsafe.Add(from, i*step)))*scale) + offset
	}
}

// wholeGroups is how many groups of 8 bytes that lie step apart the vector instructions convert of n. They
// load 16 bytes at a time, which must not reach beyond the last of the n.
func wholeGroups(n, step int64) int64 {
	room := (n-1)*step + 1 // bytes from the first to the last
	if room < 4*step+16 {
		return 0
	}
	return (room-4*step-16)/(8*step) + 1
}

// vectorFromUint8Row converts n bytes from the one with index i on, in the order of memory. n is a positive
// multiple of 8.
func vectorFromUint8Row(to []float32, from unsafe.Pointer, step, i, n int64, backward bool, scale, offset float32) {
	order := &orders[step-1]
	if !backward {
		vectorFromUint8(&to[i], from, unsafe.Add(from, 4*step), n, 8*step, 32, &order[0], scale, offset)
		return
	}
	vectorFromUint8(&to[int64(len(to))-8-i], unsafe.Add(from, 4*step), from, n, 8*step, -32, &order[1], scale, offset)
}

// orders says for each step which bytes of 16 become the lowest bytes of four numbers, forward and
// backward. The others become 0.
var orders = func() (list [maxStep][2][16]uint8) {
	for s := range list {
		for k := range 16 {
			list[s][0][k], list[s][1][k] = 0x80, 0x80
		}
		for k := range 4 {
			list[s][0][4*k] = uint8(k * (s + 1))
			list[s][1][4*k] = uint8((3 - k) * (s + 1))
		}
	}
	return list
}()

// NaN is what every NaN becomes that Scale computes: processors differ in the bits of a NaN.
var NaN = math.Float32frombits(0x7fc00000)

// Scale scales the numbers of x. Every NaN becomes [NaN].
func Scale(x []float32, scale, offset float32) {
	for i, f := range x {
		y := float32(f*scale) + offset
		if y != y { // NaN is rare: the processor predicts this branch
			y = NaN
		}
		x[i] = y
	}
}

// ScaleEach scales x[i] by scale[i] and offset[i]. Every NaN becomes [NaN].
func ScaleEach(x, scale, offset []float32) {
	scale, offset = scale[:len(x)], offset[:len(x)]
	for i, f := range x {
		y := float32(f*scale[i]) + offset[i]
		if y != y {
			y = NaN
		}
		x[i] = y
	}
}
