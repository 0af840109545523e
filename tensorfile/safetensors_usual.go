package tensorfile

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/dlx-go/dlx/core"
)

// The text around the numbers of a tensor, as the usual writers make it.
const (
	beforeType    = `{"dtype":"`
	beforeShape   = `","shape":[`
	beforeOffsets = `],"data_offsets":[`
	afterOffsets  = `]}`
)

// usual reads the value of a tensor's key as the usual writers make it: without blanks, and with the keys in the order of
// the format's description. Of any other text it reads nothing and reports false, also if something is wrong with it:
// fields reads that, or has the error. What usual takes, fields takes with the same result.
func (s *headerScanner) usual(e *entry) bool {
	t := s.text[s.pos:]
	// A type has at most 11 characters, an extent and an offset at most 19.
	if len(t) < len(beforeType) || string(t[:len(beforeType)]) != beforeType {
		return false
	}
	t = t[len(beforeType):]
	n := 0
	for n < len(t) && t[n] != '"' {
		n++
	}
	if s.lastName != string(t[:n]) {
		known, ok := safetensorsByName[string(t[:n])]
		if !ok {
			return false
		}
		s.lastName, s.lastType = string(t[:n]), known
	}
	t = t[n:]
	if len(t) < len(beforeShape) || string(t[:len(beforeShape)]) != beforeShape {
		return false
	}
	t = t[len(beforeShape):]
	rank := 0
	for len(t) > 0 && t[0] != ']' {
		if rank > 0 {
			if t[0] != ',' {
				return false
			}
			t = t[1:]
		}
		if rank == core.MaxRank {
			return false
		}
		if s.numbers[rank], t = shortNumber(t); t == nil {
			return false
		}
		rank++
	}
	if len(t) < len(beforeOffsets) || string(t[:len(beforeOffsets)]) != beforeOffsets {
		return false
	}
	begin, t := shortNumber(t[len(beforeOffsets):])
	if len(t) == 0 || t[0] != ',' {
		return false
	}
	end, t := shortNumber(t[1:])
	if len(t) < len(afterOffsets) || string(t[:len(afterOffsets)]) != afterOffsets {
		return false
	}
	if !s.placeUsual(e, rank, begin, end) {
		return false
	}
	s.pos = len(s.text) - len(t) + len(afterOffsets)
	return true
}

// placeUsual sets what place sets, and the shape, which is in s.numbers. It reports false where place has more to do.
func (s *headerScanner) placeUsual(e *entry, rank int, begin, end int64) bool {
	t := s.lastType
	elementBits := uint64(t.Bits) * uint64(t.Lanes)
	if nativeOrder != '<' || elementBits%8 != 0 {
		return false
	}
	dims := s.dims.take(2 * rank)
	shape, strides := dims[:rank], dims[rank:]
	copy(shape, s.numbers[:rank])
	elements, ok := rowMajorStrides(strides, shape)
	high, size := bits.Mul64(uint64(elements), elementBits/8)
	if !ok || high != 0 || size > math.MaxInt64 || begin > end || end-begin != int64(size) {
		return false
	}
	e.DType, e.dims, e.Offset, e.Bytes = t, dims, begin, end-begin
	return true
}

// shortNumber reads a number of at most 18 digits at the start of t. It returns what follows, or nil if there is no such
// number.
func shortNumber(t []byte) (v int64, rest []byte) {
	n := 0
	for ; n < len(t); n++ {
		d := t[n] - '0'
		if d > 9 {
			break
		}
		v = v*10 + int64(d)
	}
	if n == 0 || n > 18 || n > 1 && t[0] == '0' {
		return 0, nil
	}
	return v, t[n:]
}

// plainASCII reports whether a text has only ASCII characters that stand for themselves in a string of JSON.
func plainASCII(text []byte) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; len(text) >= 8; text = text[8:] {
		w := binary.LittleEndian.Uint64(text)
		// Each term has the highest bit of some byte if a byte is 128 or more, below ' ', or a backslash.
		below := (w - ones*' ') &^ w
		slash := w ^ ones*'\\'
		if (w|below|(slash-ones)&^slash)&high != 0 {
			return false
		}
	}
	for _, c := range text {
		if c < ' ' || c == '\\' || c >= 0x80 {
			return false
		}
	}
	return true
}
