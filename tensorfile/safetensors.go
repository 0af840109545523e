package tensorfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dlx-go/dlx/core"
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
	{"F6_E2M3", core.DType{Code: core.CodeFloat6E2M3FN, Bits: 6, Lanes: 1}},
	{"F6_E3M2", core.DType{Code: core.CodeFloat6E3M2FN, Bits: 6, Lanes: 1}},
	{"U8", core.TypeUint8},
	{"I8", core.TypeInt8},
	{"F8_E5M2", core.TypeFloat8E5M2},
	{"F8_E4M3", core.TypeFloat8E4M3FN},
	{"F8_E8M0", core.DType{Code: core.CodeFloat8E8M0FNU, Bits: 8, Lanes: 1}},
	{"F8_E4M3FNUZ", core.DType{Code: core.CodeFloat8E4M3FNUZ, Bits: 8, Lanes: 1}},
	{"F8_E5M2FNUZ", core.DType{Code: core.CodeFloat8E5M2FNUZ, Bits: 8, Lanes: 1}},
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
func readSafetensors(data []byte, at fault) ([]entry, map[string]string, error) {
	if len(data) < lengthSize {
		return nil, nil, at.errorf(core.ErrLayout, "header length has %d bytes, but the file ends after %d of them", lengthSize, len(data))
	}
	length, rest := binary.LittleEndian.Uint64(data), data[lengthSize:]
	switch {
	case length > maxJSON:
		return nil, nil, at.errorf(core.ErrLayout, "header length is %d; the format allows %d bytes", length, maxJSON)
	case length > uint64(len(rest)):
		return nil, nil, at.errorf(core.ErrLayout, "header has %d bytes, but the file ends after %d of them", length, len(rest))
	}
	text, rest := rest[:length], rest[length:]
	switch {
	case len(text) == 0 || text[0] != '{':
		return nil, nil, at.errorf(core.ErrInvalid, "header: it does not begin with '{'")
	case !utf8.Valid(text):
		return nil, nil, at.errorf(core.ErrInvalid, "header: it is not UTF-8")
	}
	h, err := parseHeader(text, at)
	if err != nil {
		return nil, nil, err
	}
	order := func(a, b entry) int { return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Bytes, b.Bytes)) }
	if !slices.IsSortedFunc(h.tensors, order) {
		slices.SortStableFunc(h.tensors, order)
	}
	end := int64(0)
	for i := range h.tensors {
		e := &h.tensors[i]
		at := at.in("tensor", e.Name)
		switch {
		case e.Offset != end:
			return nil, nil, at.errorf(core.ErrLayout, "data_offsets begin at %d, but the tensors before end at %d: gaps and overlap are not allowed", e.Offset, end)
		case e.Bytes > int64(len(rest))-end:
			return nil, nil, at.errorf(core.ErrLayout, "data_offsets end at %d, but %d bytes follow the header", end+e.Bytes, len(rest))
		}
		end += e.Bytes
		e.Offset += lengthSize + int64(len(text))
	}
	if end != int64(len(rest)) {
		return nil, nil, at.errorf(core.ErrLayout, "data_offsets end at %d, but %d bytes follow the header", end, len(rest))
	}
	return h.tensors, h.metadata, nil
}

// parseHeader reads the JSON object.
func parseHeader(text []byte, at fault) (header, error) {
	var h header
	s := &scanner{text: text, blank: " \t\r\n", at: at}
	err := s.object("header", func(key string) (err error) {
		if key == metadataName {
			h.metadata = make(map[string]string)
			return s.object(metadataName, func(key string) error {
				value, err := s.jsonString(metadataName + "." + quote(key))
				h.metadata[key] = value
				return err
			})
		}
		e, err := s.tensor(key)
		h.tensors = append(h.tensors, e)
		return err
	})
	if err != nil {
		return header{}, err
	}
	if padding := text[s.pos:]; strings.Trim(string(padding), " ") != "" {
		return header{}, s.expected("spaces up to the end", "padding")
	}
	return h, nil
}

// tensor reads the value of a tensor's key.
func (s *scanner) tensor(name string) (entry, error) {
	at := s.at
	defer func() { s.at = at }()
	s.at = at.in("tensor", name)
	e := entry{Info: Info{Name: name}}
	var shape, offsets []int64
	var dtype string
	err := s.object("value", func(key string) (err error) {
		switch key {
		case "dtype":
			dtype, err = s.jsonString(key)
		case "shape":
			shape, _, err = s.extents("[]", false, key, "")
		case "data_offsets":
			offsets, _, err = s.extents("[]", false, key, "")
		default:
			return s.at.errorf(core.ErrInvalid, "key %s is unknown; a tensor has dtype, shape and data_offsets", quote(key))
		}
		return err
	})
	switch {
	case err != nil:
		return e, err
	case dtype == "":
		return e, s.at.errorf(core.ErrInvalid, "dtype is missing or empty")
	case shape == nil:
		return e, s.at.errorf(core.ErrInvalid, "shape is missing")
	case len(offsets) != 2:
		return e, s.at.errorf(core.ErrInvalid, "data_offsets are missing or not two numbers")
	}
	return e, e.place(dtype, shape, offsets[0], offsets[1], s.at)
}

// place sets the type, the shape and the offset, and checks that the elements take exactly the
// bytes from begin to end.
func (e *entry) place(dtype string, shape []int64, begin, end int64, at fault) error {
	known := slices.IndexFunc(safetensorsTypes, func(t safetensorsType) bool { return t.name == dtype })
	if known < 0 {
		return at.errorf(core.ErrDType, "dtype is %s, which is not a type of the format", quote(dtype))
	}
	e.DType = safetensorsTypes[known].dtype
	if err := checkOrder(e.DType, nativeOrder, at); err != nil {
		return err
	}
	l, err := at.layout(shape, false)
	if err != nil {
		return err
	}
	size, err := packedSize(e.DType, l, at)
	switch {
	case err != nil:
		return err
	case begin > end:
		return at.errorf(core.ErrLayout, "data_offsets end at %d, before they begin at %d", end, begin)
	case end-begin != size:
		return at.errorf(core.ErrLayout, "data_offsets span %d bytes, but shape %v of %s takes %d", end-begin, shape, dtype, size)
	}
	e.Shape, e.Strides, e.Offset, e.Bytes = l.Shape(), l.Strides(), begin, size
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
	size, err := t.Size(l.NumElements(), false)
	if err != nil {
		return 0, at.errorf(core.ErrLayout, "shape %v of %v overflows int64 bytes", l.Shape(), t)
	}
	if l.NumElements()%8*int64(t.Bits)%8 != 0 {
		return 0, at.errorf(core.ErrLayout, "shape %v: elements of %v must fill their last byte", l.Shape(), t)
	}
	return size, nil
}

// object reads a JSON object whose keys do not repeat. It calls value to read the value of
// each key.
func (s *scanner) object(field string, value func(key string) error) error {
	var seen keys
	_, err := s.list("{}", false, field, func(int) error {
		key, err := s.jsonString(field)
		if err != nil {
			return err
		}
		if seen.add(key) {
			return s.at.errorf(core.ErrInvalid, "%s: key %s is there twice", field, quote(key))
		}
		if !s.accept(':') {
			return s.expected("':'", quote(key))
		}
		return value(key)
	})
	return err
}

// keys is a set of keys. Most objects have few of them, which need no map.
type keys struct {
	few  [4]string
	n    int
	more map[string]struct{}
}

// add adds a key, and reports whether it was there.
func (k *keys) add(key string) bool {
	if k.more == nil {
		if slices.Contains(k.few[:k.n], key) {
			return true
		}
		if k.n < len(k.few) {
			k.few[k.n] = key
			k.n++
			return false
		}
		k.more = make(map[string]struct{})
		for _, few := range k.few {
			k.more[few] = struct{}{}
		}
	}
	before := len(k.more)
	k.more[key] = struct{}{}
	return len(k.more) == before
}

// words are strings that every tensor of a header has. jsonString returns them without allocating them again.
var words = func() map[string]string {
	words := map[string]string{"dtype": "dtype", "shape": "shape", "data_offsets": "data_offsets"}
	for _, t := range safetensorsTypes {
		words[t.name] = t.name
	}
	return words
}()

// jsonString reads a string.
func (s *scanner) jsonString(field string) (string, error) {
	if s.peek() != '"' {
		return "", s.expected("a string", field)
	}
	// Most strings have no escapes, and stand for themselves. The text is UTF-8 if it is that of a header.
	rest := s.text[s.pos+1:]
	if n := bytes.IndexByte(rest, '"'); n >= 0 && plainText(rest[:n]) {
		s.pos += n + 2
		if word, known := words[string(rest[:n])]; known {
			return word, nil
		}
		return string(rest[:n]), nil
	}
	for i := s.pos + 1; i < len(s.text); i++ {
		switch s.text[i] {
		case '\\':
			i++
		case '"':
			raw := s.text[s.pos : i+1]
			var v string
			if json.Unmarshal(raw, &v) != nil || losesText(string(raw), v) {
				return "", s.expected("a valid string", field)
			}
			s.pos = i + 1
			return v, nil
		}
	}
	return "", s.expected("a string with an end", field)
}

// plainText reports whether a part of a JSON string has only ASCII characters that need no escape and are none.
func plainText(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// losesText reports whether decoding a JSON string has replaced an invalid escape by U+FFFD. An
// escape is invalid if it is only half of a surrogate pair.
func losesText(raw, decoded string) bool {
	const replacement, escaped = "\uFFFD", `\ufffd`
	return strings.Contains(raw, `\u`) &&
		strings.Count(decoded, replacement) > strings.Count(raw, replacement)+strings.Count(strings.ToLower(raw), escaped)
}
