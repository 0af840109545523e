package tensorfile

import (
	"bytes"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// safetensorsByName are the element types by their names.
var safetensorsByName = func() map[string]core.DType {
	types := make(map[string]core.DType, len(safetensorsTypes))
	for _, t := range safetensorsTypes {
		types[t.name] = t.dtype
	}
	return types
}()

// headerScanner reads the header of a .safetensors file. A header may have very many tensors, so that it allocates names
// and shapes for many of them at a time, and nothing else.
type headerScanner struct {
	scanner
	names   slab[byte]
	dims    slab[int64]
	numbers [core.MaxRank]int64
	// The type of the last tensor that usual has read.
	lastName string
	lastType core.DType
}

// parseHeader reads the JSON object, and calls each for each tensor. It does not find names of tensors that repeat; the
// index of a [File] does.
func parseHeader(text []byte, at fault, each func(*entry)) (header, error) {
	var h header
	s := &headerScanner{scanner: scanner{text: text, blank: jsonBlank, at: at}}
	_, err := s.list("{}", false, "header", func(int) error {
		begin := s.pos
		name, err := s.key("header")
		switch {
		case err != nil:
			return err
		case string(name) != metadataName:
			h.tensors = append(h.tensors, entry{more: nothingMore})
			e := &h.tensors[len(h.tensors)-1]
			if e.Name = s.keep(name); !s.usual(e) {
				if err := s.tensor(e.Name, e); err != nil {
					return err
				}
			}
			each(e)
			if len(h.tensors) == 1 { // the others take about as much text
				h.tensors = slices.Grow(h.tensors, (len(text)-s.pos)/(s.pos-begin))
			}
			return nil
		case h.metadata != nil:
			return s.repeated("header", name)
		}
		h.metadata = make(map[string]string)
		if s.word("null") { // as some writers have it; the format's own reader takes it
			return nil
		}
		return s.object(metadataName, func(key string) error {
			value, err := s.jsonString(metadataName + "." + quote(key))
			h.metadata[key] = value
			return err
		})
	})
	if err != nil {
		return header{}, err
	}
	if padding := bytes.TrimLeft(text[s.pos:], " "); len(padding) > 0 {
		return header{}, s.expected("spaces up to the end", "padding")
	}
	return h, nil
}

// keep returns a copy of a name.
func (s *headerScanner) keep(name []byte) string {
	return unsafe.String(unsafe.SliceData(s.names.of(name)), len(name)) // nobody writes these bytes any more
}

// tensor reads the value of a tensor's key.
func (s *headerScanner) tensor(name string, e *entry) error {
	at := s.at
	s.at = at.in("tensor", name)
	err := s.fields(name, e)
	s.at = at
	return err
}

// fields is tensor. Its errors name the tensor.
func (s *headerScanner) fields(name string, e *entry) error {
	const hasType, hasShape, hasOffsets = 1, 2, 4
	var has, offsets int
	var dtype []byte // a part of the text
	var pair [2]int64
	_, err := s.list("{}", false, "value", func(int) error {
		key, err := s.key("value")
		if err != nil {
			return err
		}
		before := has
		switch string(key) {
		case "dtype":
			has |= hasType
		case "shape":
			has |= hasShape
		case "data_offsets":
			has |= hasOffsets
		default:
			return s.at.errorf(core.ErrInvalid, "key %s is unknown; a tensor has dtype, shape and data_offsets", quote(string(key)))
		}
		var values []int64
		switch has &^ before {
		case 0:
			return s.repeated("value", key)
		case hasType:
			dtype, err = s.jsonText("dtype")
		case hasShape:
			values, _, err = s.extents(s.numbers[:0], "[]", false, "shape", "")
			e.dims = s.dims.take(2 * len(values))
			copy(e.dims, values)
		case hasOffsets:
			values, _, err = s.extents(s.numbers[:0], "[]", false, "data_offsets", "")
			offsets = len(values)
			copy(pair[:], values)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case len(dtype) == 0:
		return s.at.errorf(core.ErrInvalid, "dtype is missing or empty")
	case has&hasShape == 0:
		return s.at.errorf(core.ErrInvalid, "shape is missing")
	case offsets != 2:
		return s.at.errorf(core.ErrInvalid, "data_offsets are missing or not two numbers")
	}
	e.Name = name
	return s.place(e, dtype, pair[0], pair[1])
}

// place sets the type, the strides and the offset of a tensor, and checks that the elements take exactly the bytes from
// begin to end.
func (s *headerScanner) place(e *entry, dtype []byte, begin, end int64) error {
	t, known := safetensorsByName[string(dtype)]
	if e.DType = t; !known {
		return s.at.errorf(core.ErrDType, "dtype is %s, which is not a type of the format", quote(string(dtype)))
	}
	if err := checkOrder(e.DType, nativeOrder, s.at); err != nil {
		return err
	}
	elements, fits := rowMajorStrides(e.Strides(), e.Shape())
	if !fits { // or it has no elements
		l, err := s.at.layout(e.Shape(), false)
		if err != nil {
			return err
		}
		elements = l.NumElements()
		l.AppendStrides(e.Strides()[:0])
	}
	size, err := packedBytes(e.DType, elements, s.at, e.Shape)
	switch {
	case err != nil:
		return err
	case begin > end:
		return s.at.errorf(core.ErrLayout, "data_offsets end at %d, before they begin at %d", end, begin)
	case end-begin != size:
		return s.at.errorf(core.ErrLayout, "data_offsets span %d bytes, but shape %v of %s takes %d", end-begin, e.Shape(), dtype, size)
	}
	e.Offset, e.Bytes = begin, size
	return nil
}

// rowMajorStrides sets the strides of a shape, and returns the number of elements. ok is false if there are none or too
// many for an int64.
func rowMajorStrides(strides, shape []int64) (elements int64, ok bool) {
	elements = 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = elements
		high, low := bits.Mul64(uint64(elements), uint64(shape[i]))
		if high != 0 || low == 0 || low > math.MaxInt64 {
			return 0, false
		}
		elements = int64(low)
	}
	return elements, true
}

// slab allocates short slices of which none is freed alone.
type slab[T any] struct {
	rest []T
	last int // the length of the last allocation
}

// take returns a slice of n zeros.
func (s *slab[T]) take(n int) []T {
	if s.rest == nil || n > len(s.rest) { // never nil, which would mean that there is no shape
		s.last = max(min(2*s.last, 8<<10), 32)
		s.rest = make([]T, max(n, s.last))
	}
	part := s.rest[:n:n]
	s.rest = s.rest[n:]
	return part
}

// of returns a copy of values.
func (s *slab[T]) of(values []T) []T {
	part := s.take(len(values))
	copy(part, values)
	return part
}
