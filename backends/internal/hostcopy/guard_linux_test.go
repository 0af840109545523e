package hostcopy

import (
	"math/rand/v2"
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"
)

// fenced is memory between two pages that fault when touched.
func fenced(t *testing.T, size int) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	size = (size + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_NONE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	inside := mem[page : page+size]
	if err := syscall.Mprotect(inside, syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	return inside
}

// Elements that lie against an unmapped page, at the low end and at the high
// end, are copied without touching it.
func TestCopyStaysInsideMemory(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	const room = 1 << 20
	dst, src := fenced(t, room), fenced(t, room)
	rng := rand.New(rand.NewPCG(21, 22))
	for round := range rounds(800) {
		elem := elemSizes[rng.IntN(len(elemSizes))]
		shape := randomShape(rng)
		to := randomStrides(rng, shape, elem, false)
		from := randomStrides(rng, shape, elem, true)
		dl, sl := newLayout(shape, to), newLayout(shape, from)
		if elements(shape) == 0 || dl.last-dl.first+elem > room || sl.last-sl.first+elem > room {
			continue
		}
		dstZero, srcZero := -dl.first, -sl.first
		if round%2 == 0 {
			dstZero, srcZero = room-elem-dl.last, room-elem-sl.last
		}
		if err := Copy(unsafe.Pointer(&dst[dstZero]), unsafe.Pointer(&src[srcZero]), geometry(t, elem, shape, to, from), 1); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCopyBitsStaysInsideMemory(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	const room = 1 << 18
	dst, src := fenced(t, room), fenced(t, room)
	rng := rand.New(rand.NewPCG(23, 24))
	for round := range rounds(500) {
		width := 1 + rng.Int64N(7)
		shape := randomShape(rng)
		to := randomStrides(rng, shape, 1, false)
		from := randomStrides(rng, shape, 1, true)
		dl, sl := newLayout(shape, to), newLayout(shape, from)
		limit := room * 8 / width
		if elements(shape) == 0 || dl.last-dl.first+1 > limit || sl.last-sl.first+1 > limit {
			continue
		}
		dstIndex, srcIndex := -dl.first, -sl.first
		if round%2 == 0 {
			dstIndex, srcIndex = limit-1-dl.last, limit-1-sl.last
		}
		if err := CopyBits(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), bitGeometry(t, width, shape, to, from, dstIndex, srcIndex), 1); err != nil {
			t.Fatal(err)
		}
	}
}
