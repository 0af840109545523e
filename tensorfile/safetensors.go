package tensorfile

import (
	"cmp"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
)

// The fixed parts of a .safetensors file.
const (
	lengthSize   = 8           // bytes of the header's length, at the start of the file
	maxJSON      = 100_000_000 // most bytes of the header; MAX_HEADER_SIZE of the reference implementation
	metadataName = "__metadata__"
)

// safetensorsType is an element type with the format's name for it.
type safetensorsType struct {
	name  string
	dtype core.DType
}

// safetensorsTypes are the format's element types in the order of the reference
// implementation. A file has the tensors of the last type first.
var safetensorsTypes = []safetensorsType{
	{"BOOL", core.TypeBool},
	{"F4", core.TypeFloat4E2M1FN},
	{"F6_E2M3", core.DType{Code: typecode.Float6E2M3FN, Bits: 6, Lanes: 1}},
	{"F6_E3M2", core.DType{Code: typecode.Float6E3M2FN, Bits: 6, Lanes: 1}},
	{"U8", core.TypeUint8},
	{"I8", core.TypeInt8},
	{"F8_E5M2", core.TypeFloat8E5M2},
	{"F8_E4M3", core.TypeFloat8E4M3FN},
	{"F8_E8M0", core.DType{Code: typecode.Float8E8M0FNU, Bits: 8, Lanes: 1}},
	{"F8_E4M3FNUZ", core.DType{Code: typecode.Float8E4M3FNUZ, Bits: 8, Lanes: 1}},
	{"F8_E5M2FNUZ", core.DType{Code: typecode.Float8E5M2FNUZ, Bits: 8, Lanes: 1}},
	{"I16", core.TypeInt16},
	{"U16", core.TypeUint16},
	{"F16", core.TypeFloat16},
	{"BF16", core.TypeBFloat16},
	{"I32", core.TypeInt32},
	{"U32", core.TypeUint32},
	{"F32", core.TypeFloat32},
	{"C64", core.TypeComplex64},
	{"F64", core.TypeFloat64},
	{"I64", core.TypeInt64},
	{"U64", core.TypeUint64},
}

// header is the content of the JSON header. The offsets of the tensors count from the first
// byte after it.
type header struct {
	tensors  []entry
	metadata map[string]string
}

// readSafetensors reads the header and checks that the tensors cover the rest of the file
// without gaps or overlap.
func readSafetensors(data []byte, o opening, at fault) ([]entry, map[string]string, error) {
	if len(data) < lengthSize {
		return nil, nil, at.errorf(core.ErrLayout, "header length has %d bytes, but the file ends after %d of them", lengthSize, len(data))
	}
	length, rest := binary.LittleEndian.Uint64(data), data[lengthSize:]
	if err := checkLength(length, at); err != nil {
		return nil, nil, err
	}
	if length > uint64(len(rest)) {
		return nil, nil, at.errorf(core.ErrLayout, "header has %d bytes, but the file ends after %d of them: it has %d bytes and should have more than %d",
			length, len(rest), len(data), lengthSize+length)
	}
	text, rest := rest[:length], rest[length:]
	base, size := lengthSize+int64(length), int64(len(rest))
	if int64(len(o.header)) == base {
		text = o.header[lengthSize:]
	}
	var tell func(e *entry)
	if o.each != nil {
		tell = func(e *entry) { o.each(e, base, size) }
	}
	h, err := parseText(text, at, tell)
	if err != nil {
		return nil, nil, err
	}
	return h.tensors, h.metadata, h.settle(base, size, at)
}

// checkLength returns an error for the length of a header that the format does not allow.
func checkLength(length uint64, at fault) error {
	if length > maxJSON {
		return at.errorf(core.ErrLayout, "header length is %d; the format allows %d bytes", length, maxJSON)
	}
	return nil
}

// parseText is parseHeader for text that may not be JSON at all. each may be nil. The text is not looked at before it is
// parsed: what comes from a disk is parsed while it arrives.
func parseText(text []byte, at fault, each func(*entry)) (*header, error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, at.errorf(core.ErrInvalid, "header: it does not begin with '{'")
	}
	if each == nil {
		each = func(*entry) {}
	}
	h, err := parseHeader(text, at, each)
	if err != nil && !utf8.Valid(text) { // the cause, whatever it did to what follows
		err = at.errorf(core.ErrInvalid, "header: it is not UTF-8")
	}
	return &h, err
}

// end returns how many bytes the tensors reach.
func (h *header) end() int64 {
	end := int64(0)
	for i := range h.tensors {
		end = max(end, h.tensors[i].Offset+h.tensors[i].Bytes)
	}
	return end
}

// settle checks that the tensors cover size bytes, and makes their offsets count from the start of the file, whose elements
// begin at byte base.
func (h *header) settle(base, size int64, at fault) error {
	if err := h.cover(base, size, at); err != nil {
		// A tensor that is there twice is the cause, not what it does to the offsets.
		names := nameIndex{entries: h.tensors}
		if name, repeats := names.build(); repeats {
			err = repeatedTensor(name, at)
		}
		return err
	}
	for i := range h.tensors {
		h.tensors[i].Offset += base
	}
	return nil
}

// cover sorts the tensors by their offsets, and checks that they cover without gaps or overlap the size bytes that follow the
// header, which ends at byte base of the file.
func (h *header) cover(base, size int64, at fault) error {
	order := func(a, b entry) int { return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Bytes, b.Bytes)) }
	end, sorted := int64(0), false
	for i := 0; i < len(h.tensors); i++ {
		e := &h.tensors[i]
		if e.Offset != end && !sorted { // most files have them in order
			slices.SortStableFunc(h.tensors, order)
			end, sorted, i = 0, true, -1
			continue
		}
		switch {
		case e.Offset != end:
			return at.in("tensor", e.Name).errorf(core.ErrLayout, "data_offsets begin at %d, but the tensors before end at %d: gaps and overlap are not allowed", e.Offset, end)
		case e.Bytes > size-end:
			need := end
			for _, e := range h.tensors[i:] {
				need = max(need, e.Offset+e.Bytes)
			}
			return at.in("tensor", e.Name).errorf(core.ErrLayout, "data_offsets end at %d, but %d bytes follow the header: %s",
				end+e.Bytes, size, cutShort(base, size, need))
		}
		end += e.Bytes
	}
	if end != size {
		return at.errorf(core.ErrLayout, "data_offsets end at %d, but %d bytes follow the header: the file has %d bytes more than its tensors", end, size, size-end)
	}
	return nil
}

// checkOrder returns an error for elements of several bytes on a machine that is not
// little-endian. The format is little-endian.
func checkOrder(t core.DType, native byte, at fault) error {
	if native != '<' && t.Bits > 8 {
		return at.errorf(core.ErrNotSupported, "%v is stored little-endian, which this machine is not", t)
	}
	return nil
}

// packedSize returns the number of bytes of the elements, which must fill their last byte.
func packedSize(t core.DType, l core.Layout, at fault) (int64, error) {
	return packedBytes(t, l.NumElements(), at, l.Shape)
}

// packedBytes is packedSize for a number of elements. It calls shape for errors.
func packedBytes(t core.DType, elements int64, at fault, shape func() []int64) (int64, error) {
	size, err := t.Size(elements, false)
	if err != nil {
		return 0, at.errorf(core.ErrLayout, "shape %v of %v overflows int64 bytes", shape(), t)
	}
	if elements%8*int64(t.Bits)%8 != 0 {
		return 0, at.errorf(core.ErrLayout, "shape %v: elements of %v must fill their last byte", shape(), t)
	}
	return size, nil
}
