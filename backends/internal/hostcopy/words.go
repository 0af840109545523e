package hostcopy

import (
	"encoding/binary"
	"unsafe"
)

// Elements of 1, 2 and 4 bytes are moved several to a 64-bit word, since a core
// stores no more than one or two values per cycle, however narrow. Words
// are read and written as little-endian, so that lane 0 has the lowest address
// on every machine.

// wordSize is the size of a word in bytes.
const wordSize = 8

// The low lane of each pair, by width in bits.
const (
	low32 = 0x00000000FFFFFFFF
	low16 = 0x0000FFFF0000FFFF
	low8  = 0x00FF00FF00FF00FF
)

func load(p unsafe.Pointer) uint64 { return binary.LittleEndian.Uint64((*[8]byte)(p)[:]) }

func store(p unsafe.Pointer, v uint64) { binary.LittleEndian.PutUint64((*[8]byte)(p)[:], v) }

func load8(p unsafe.Pointer) uint64 { return uint64(*(*uint8)(p)) }

func load16(p unsafe.Pointer) uint64 {
	return uint64(binary.LittleEndian.Uint16((*[2]byte)(p)[:]))
}

// packWords writes elements that lie stride apart side by side, in words, and
// returns how many of the n it wrote: none for sizes that gain nothing, otherwise
// all but the last few.
func packWords(dst, src unsafe.Pointer, elem, n, stride int64) int64 {
	switch elem {
	case 1:
		return gather8(dst, src, n, stride)
	case 2:
		return gather16(dst, src, n, stride)
	}
	return 0
}

// gather8 packs bytes.
func gather8(dst, src unsafe.Pointer, n, stride int64) int64 {
	i, s := int64(0), int64(0)
	for ; i+8 <= n; i += 8 {
		p := unsafe.Add(src, s)
		q := unsafe.Add(p, 4*stride)
		lo := load8(p) | load8(unsafe.Add(p, stride))<<8 |
			load8(unsafe.Add(p, 2*stride))<<16 | load8(unsafe.Add(p, 3*stride))<<24
		hi := load8(q) | load8(unsafe.Add(q, stride))<<8 |
			load8(unsafe.Add(q, 2*stride))<<16 | load8(unsafe.Add(q, 3*stride))<<24
		store(unsafe.Add(dst, i), lo|hi<<32)
		s += 8 * stride
	}
	return i
}

// gather16 packs elements of two bytes.
func gather16(dst, src unsafe.Pointer, n, stride int64) int64 {
	i, s := int64(0), int64(0)
	for ; i+4 <= n; i += 4 {
		p := unsafe.Add(src, s)
		v := load16(p) | load16(unsafe.Add(p, stride))<<16 |
			load16(unsafe.Add(p, 2*stride))<<32 | load16(unsafe.Add(p, 3*stride))<<48
		store(unsafe.Add(dst, 2*i), v)
		s += 4 * stride
	}
	return i
}

// swap exchanges the high lanes of a with the low lanes of b: one step of
// transposing a square of lanes. mask selects the low lane of each pair.
func swap(a, b uint64, shift uint, mask uint64) (uint64, uint64) {
	t := (a>>shift ^ b) & mask
	return a ^ t<<shift, b ^ t
}

// strip8 transposes n rows of 8 bytes, from bytes apart, into 8 rows of n, to
// bytes apart. n is a multiple of 8.
func strip8(dst unsafe.Pointer, to int64, src unsafe.Pointer, from, n int64) {
	for i := int64(0); i < n; i += 8 {
		p := unsafe.Add(src, i*from)
		q := unsafe.Add(p, 4*from)
		a, b, c, d := load(p), load(unsafe.Add(p, from)), load(unsafe.Add(p, 2*from)), load(unsafe.Add(p, 3*from))
		e, f, g, h := load(q), load(unsafe.Add(q, from)), load(unsafe.Add(q, 2*from)), load(unsafe.Add(q, 3*from))
		a, e = swap(a, e, 32, low32)
		b, f = swap(b, f, 32, low32)
		c, g = swap(c, g, 32, low32)
		d, h = swap(d, h, 32, low32)
		a, c = swap(a, c, 16, low16)
		b, d = swap(b, d, 16, low16)
		e, g = swap(e, g, 16, low16)
		f, h = swap(f, h, 16, low16)
		a, b = swap(a, b, 8, low8)
		c, d = swap(c, d, 8, low8)
		e, f = swap(e, f, 8, low8)
		g, h = swap(g, h, 8, low8)
		p = unsafe.Add(dst, i)
		q = unsafe.Add(p, 4*to)
		store(p, a)
		store(unsafe.Add(p, to), b)
		store(unsafe.Add(p, 2*to), c)
		store(unsafe.Add(p, 3*to), d)
		store(q, e)
		store(unsafe.Add(q, to), f)
		store(unsafe.Add(q, 2*to), g)
		store(unsafe.Add(q, 3*to), h)
	}
}

// strip16 is strip8 for n rows of 4 elements of two bytes, n a multiple of 4.
func strip16(dst unsafe.Pointer, to int64, src unsafe.Pointer, from, n int64) {
	for i := int64(0); i < n; i += 4 {
		p := unsafe.Add(src, i*from)
		a, b, c, d := load(p), load(unsafe.Add(p, from)), load(unsafe.Add(p, 2*from)), load(unsafe.Add(p, 3*from))
		a, c = swap(a, c, 32, low32)
		b, d = swap(b, d, 32, low32)
		a, b = swap(a, b, 16, low16)
		c, d = swap(c, d, 16, low16)
		p = unsafe.Add(dst, 2*i)
		store(p, a)
		store(unsafe.Add(p, to), b)
		store(unsafe.Add(p, 2*to), c)
		store(unsafe.Add(p, 3*to), d)
	}
}

// strip32 is strip8 for n rows of 2 elements of four bytes, n a multiple of 2.
func strip32(dst unsafe.Pointer, to int64, src unsafe.Pointer, from, n int64) {
	for i := int64(0); i < n; i += 2 {
		p := unsafe.Add(src, i*from)
		a, b := swap(load(p), load(unsafe.Add(p, from)), 32, low32)
		p = unsafe.Add(dst, 4*i)
		store(p, a)
		store(unsafe.Add(p, to), b)
	}
}
