package core

import (
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/core/float"
	"github.com/dlx-go/dlx/core/internal/affine"
	"github.com/dlx-go/dlx/core/internal/minifloat"
	"github.com/dlx-go/dlx/core/typecode"
)

// The functions of this file convert dense rows between the most common types. They are
// fast because they need no intermediate type and no branches that depend on the numbers.

// bulkConverter returns a function that converts rows directly from one type to the other,
// or nil if there is none for the two types.
func bulkConverter(to, from component) rowConverter {
	type pair struct {
		to, from typecode.Code
		bits     [2]int64
	}
	switch (pair{to.code, from.code, [2]int64{to.bits, from.bits}}) {
	case pair{typecode.Float, typecode.Float, [2]int64{32, 16}}:
		return bulk(func(to []float32, from []float.Float16) { float.FromFloat16(to, from) })
	case pair{typecode.Float, typecode.Float, [2]int64{16, 32}}:
		return bulk(func(to []float.Float16, from []float32) { float.ToFloat16(to, from) })
	case pair{typecode.Float, typecode.Bfloat, [2]int64{32, 16}}:
		return bulk(func(to []float32, from []float.BFloat16) { float.FromBFloat16(to, from) })
	case pair{typecode.Bfloat, typecode.Float, [2]int64{16, 32}}:
		return bulk(func(to []float.BFloat16, from []float32) { float.ToBFloat16(to, from) })
	case pair{typecode.Float, typecode.UInt, [2]int64{32, 8}}:
		return func(dst, src unsafe.Pointer, toBit, fromBit int64, s stepping) {
			to, from := unsafe.Add(dst, toBit>>3), unsafe.Add(src, fromBit>>3)
			if s.dst == 32 || s.n == 1 {
				affine.FromUint8(unsafe.Slice((*float32)(to), s.n), from, s.src>>3, 1, noOffset)
				return
			}
			var room [block]float32
			for done := int64(0); done < s.n; done += block {
				x := room[:min(s.n-done, block)]
				affine.FromUint8(x, unsafe.Add(from, done*(s.src>>3)), s.src>>3, 1, noOffset)
				for i, y := range x {
					*(*float32)(unsafe.Add(to, (done+int64(i))*s.dst>>3)) = y
				}
			}
		}
	case pair{typecode.Float, typecode.Float, [2]int64{64, 32}}:
		return bulk(convertFloats[float64, float32])
	case pair{typecode.Float, typecode.Float, [2]int64{32, 64}}:
		return bulk(convertFloats[float32, float64])
	}
	switch float32s := (component{code: typecode.Float, bits: 32}); {
	case from.bits == 8 && smallTable(from) != nil && to.code == float32s.code && to.bits == float32s.bits:
		table := smallTable(from)
		return bulk(func(to []float32, from []uint8) {
			for i, x := range from {
				to[i] = table[x]
			}
		})
	case to.bits == 8 && smallEncoder(to) != nil && from.code == float32s.code && from.bits == float32s.bits:
		encode := smallEncoder(to)
		return bulk(func(to []uint8, from []float32) {
			for i, f := range from {
				to[i] = encode(f)
			}
		})
	}
	return nil
}

// bulk makes a rowConverter of f, which converts a slice into another one of the same
// length.
func bulk[To, From any](f func([]To, []From)) rowConverter {
	toSize, fromSize := int64(unsafe.Sizeof(*new(To))), int64(unsafe.Sizeof(*new(From)))
	return func(dst, src unsafe.Pointer, toBit, fromBit int64, s stepping) {
		to, from := unsafe.Add(dst, toBit>>3), unsafe.Add(src, fromBit>>3)
		if s.dst == 8*toSize && s.src == 8*fromSize || s.n == 1 {
			f(unsafe.Slice((*To)(to), s.n), unsafe.Slice((*From)(from), s.n))
			return
		}
		// The components are not adjacent: gather a block, convert it, scatter it.
		var toBlock [block]To
		var fromBlock [block]From
		for done := int64(0); done < s.n; done += block {
			n := min(s.n-done, block)
			for i := range n {
				fromBlock[i] = *(*From)(unsafe.Add(from, (done+i)*s.src>>3))
			}
			f(toBlock[:n], fromBlock[:n])
			for i := range n {
				*(*To)(unsafe.Add(to, (done+i)*s.dst>>3)) = toBlock[i]
			}
		}
	}
}

func convertFloats[To, From float32 | float64](to []To, from []From) {
	to = to[:len(from)]
	for i, x := range from {
		to[i] = To(x)
	}
}

// copier returns a rowConverter that copies components of size bytes.
func copier(size int64) rowConverter {
	switch size {
	case 1:
		return bulk(func(to, from []uint8) { copy(to, from) })
	case 2:
		return bulk(func(to, from []uint16) { copy(to, from) })
	case 4:
		return bulk(func(to, from []uint32) { copy(to, from) })
	case 8:
		return bulk(func(to, from []uint64) { copy(to, from) })
	}
	return func(dst, src unsafe.Pointer, toBit, fromBit int64, s stepping) {
		for i := range s.n {
			to, from := unsafe.Add(dst, (toBit+i*s.dst)>>3), unsafe.Add(src, (fromBit+i*s.src)>>3)
			copy(unsafe.Slice((*byte)(to), size), unsafe.Slice((*byte)(from), size))
		}
	}
}

// small has the functions of the floating-point types of 8 bits and fewer.
var small = map[typecode.Code]struct {
	bits   int64
	decode func(uint8) float32
	encode func(float32) uint8
}{
	typecode.Float8E3M4:        {8, minifloat.E3M4.Decode, minifloat.E3M4.Encode},
	typecode.Float8E4M3:        {8, minifloat.E4M3.Decode, minifloat.E4M3.Encode},
	typecode.Float8E4M3B11FNUZ: {8, minifloat.E4M3B11FNUZ.Decode, minifloat.E4M3B11FNUZ.Encode},
	typecode.Float8E4M3FN:      {8, minifloat.E4M3FN.Decode, minifloat.E4M3FN.Encode},
	typecode.Float8E4M3FNUZ:    {8, minifloat.E4M3FNUZ.Decode, minifloat.E4M3FNUZ.Encode},
	typecode.Float8E5M2:        {8, minifloat.E5M2.Decode, minifloat.E5M2.Encode},
	typecode.Float8E5M2FNUZ:    {8, minifloat.E5M2FNUZ.Decode, minifloat.E5M2FNUZ.Encode},
	typecode.Float8E8M0FNU: {8,
		func(x uint8) float32 { return float.Float8E8M0FNU(x).Float32() },
		func(f float32) uint8 { return uint8(float.NewFloat8E8M0FNU(f)) }},
	typecode.Float6E2M3FN: {6, minifloat.E2M3FN.Decode, minifloat.E2M3FN.Encode},
	typecode.Float6E3M2FN: {6, minifloat.E3M2FN.Decode, minifloat.E3M2FN.Encode},
	typecode.Float4E2M1FN: {4, minifloat.E2M1FN.Decode, minifloat.E2M1FN.Encode},
}

// smallTables has the values of all bit patterns of the small types.
var smallTables = sync.OnceValue(func() map[typecode.Code]*[256]float32 {
	tables := make(map[typecode.Code]*[256]float32)
	for code, row := range small {
		var t [256]float32
		for i := range t {
			t[i] = row.decode(uint8(i))
		}
		tables[code] = &t
	}
	return tables
})

// smallTable returns the values of all bit patterns of c, nil if c is not a small type.
func smallTable(c component) *[256]float32 {
	if row := small[c.code]; row.bits != c.bits {
		return nil
	}
	return smallTables()[c.code]
}

// smallEncoder returns the function that rounds to c, nil if c is not a small type.
func smallEncoder(c component) func(float32) uint8 {
	if row := small[c.code]; row.bits == c.bits {
		return row.encode
	}
	return nil
}
