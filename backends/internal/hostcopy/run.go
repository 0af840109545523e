package hostcopy

import "unsafe"

// run copies elements of elem bytes along one axis.
func run[T element](dst, src unsafe.Pointer, elem int64, a axis) {
	switch {
	case a.Dst == elem && a.Src == elem:
		move(dst, src, a.N*elem)
	case a.Dst == elem && a.Src == 0:
		fill[T](dst, src, elem, a.N)
	case isRow[T]():
		for i := range a.N {
			move(unsafe.Add(dst, i*a.Dst), unsafe.Add(src, i*a.Src), elem)
		}
	case a.Dst == elem:
		// The rest may be empty, and then its address may be outside the tensor.
		if i := packWords(dst, src, elem, a.N, a.Src); i < a.N {
			oneByOne[T](unsafe.Add(dst, i*elem), unsafe.Add(src, i*a.Src), axis{N: a.N - i, Dst: elem, Src: a.Src})
		}
	default:
		oneByOne[T](dst, src, a)
	}
}

// isRow is a constant in every instance.
func isRow[T element]() bool {
	var v T
	return unsafe.Sizeof(v) == 0
}

// oneByOne copies one element at a time. It counts offsets and forms each
// address from the base: a pointer that has run past the end of a Go object
// is an error to the garbage collector, even unused. The same holds for every
// loop of this package.
func oneByOne[T element](dst, src unsafe.Pointer, a axis) {
	var d, s int64
	i := int64(0)
	for ; i+4 <= a.N; i += 4 {
		p, q := unsafe.Add(dst, d), unsafe.Add(src, s)
		*(*T)(p) = *(*T)(q)
		*(*T)(unsafe.Add(p, a.Dst)) = *(*T)(unsafe.Add(q, a.Src))
		*(*T)(unsafe.Add(p, 2*a.Dst)) = *(*T)(unsafe.Add(q, 2*a.Src))
		*(*T)(unsafe.Add(p, 3*a.Dst)) = *(*T)(unsafe.Add(q, 3*a.Src))
		d += 4 * a.Dst
		s += 4 * a.Src
	}
	for ; i < a.N; i++ {
		*(*T)(unsafe.Add(dst, d)) = *(*T)(unsafe.Add(src, s))
		d += a.Dst
		s += a.Src
	}
}

const (
	// seedBytes is what fill writes by single stores, before it starts to
	// double: a shorter seed would be read back while it is still being stored.
	seedBytes = 512
	// fillChunk is how far fill doubles what it has written: enough for memmove
	// at full speed, little enough to be read from L1.
	fillChunk = 4 << 10
)

// fill writes n copies of one element side by side.
func fill[T element](dst, src unsafe.Pointer, elem, n int64) {
	total := elem * n
	seed := min(n, max(1, seedBytes/elem))
	switch {
	case isRow[T]():
		for i := range seed {
			move(unsafe.Add(dst, i*elem), src, elem)
		}
	case wordSize%elem == 0 && total >= seedBytes:
		oneByOne[T](dst, src, axis{N: wordSize / elem, Dst: elem, Src: 0})
		oneByOne[uint64](unsafe.Add(dst, wordSize), dst, axis{N: seedBytes/wordSize - 1, Dst: wordSize, Src: 0})
	default:
		oneByOne[T](dst, src, axis{N: seed, Dst: elem, Src: 0})
	}
	for done := seed * elem; done < total; {
		c := min(done, max(fillChunk/elem, 1)*elem, total-done)
		move(unsafe.Add(dst, done), dst, c)
		done += c
	}
}
