package tensorfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// The fixed parts of an .npy file, as numpy.lib.format describes them.
const (
	npyMagic     = "\x93NUMPY"
	npyAlignment = 64 // bytes; the header is padded to a multiple of this
	// npyMaxHeader is the largest length of the header text. The header of an array that
	// a tensor can express has at most 64 extents, which take less than 2 KiB. Only
	// headers with the fields of structures are longer.
	npyMaxHeader = 1<<16 - 1
)

// npyTypes are the element types that both NumPy and DLPack have, by the part of
// the descr after the byte order.
var npyTypes = map[string]core.DType{
	"b1": core.TypeBool,
	"i1": core.TypeInt8, "i2": core.TypeInt16, "i4": core.TypeInt32, "i8": core.TypeInt64,
	"u1": core.TypeUint8, "u2": core.TypeUint16, "u4": core.TypeUint32, "u8": core.TypeUint64,
	"f2": core.TypeFloat16, "f4": core.TypeFloat32, "f8": core.TypeFloat64,
	"c8": core.TypeComplex64, "c16": core.TypeComplex128,
}

// npyKinds says why a tensor cannot have elements of some kinds that NumPy has, by the first
// letter of the descr after the byte order.
var npyKinds = map[byte]string{
	'O': "objects are Python pickles",
	'U': "strings are not numbers",
	'S': "byte strings are not numbers",
	'a': "byte strings are not numbers",
	'T': "strings are not numbers",
	'M': "dates have no DLPack type; view them as int64 in NumPy",
	'm': "time differences have no DLPack type; view them as int64 in NumPy",
	'V': voidReason,
	'f': "this width of float has no DLPack type (long double differs between machines)",
	'c': "this width of complex has no DLPack type",
}

// npyHeader is the content of the header of an .npy file.
type npyHeader struct {
	dtype   core.DType
	swapped bool // the elements do not have the byte order of this machine
	layout  core.Layout
	size    int64 // of the header, in bytes
	bytes   int64 // of the elements
}

// entry returns the entry of the array.
func (h *npyHeader) entry(name string) entry {
	dims := h.layout.AppendStrides(h.layout.AppendShape([]int64{}))
	return entry{Name: name, DType: h.dtype, dims: dims, Offset: h.size, Bytes: h.bytes, Swapped: h.swapped, more: nothingMore}
}

// readNPY reads a file that is one array. voids is VoidAs of OpenOptions.
func readNPY(data []byte, name string, voids []core.DType, at fault) ([]entry, error) {
	h, err := readNPYHeader(bytes.NewReader(data), int64(len(data)), voids, at)
	if err != nil {
		return nil, err
	}
	return []entry{h.entry(name)}, nil
}

// readNPYHeader reads the header of a file of total bytes from r, and checks that exactly the
// elements follow it.
func readNPYHeader(r io.Reader, total int64, voids []core.DType, at fault) (*npyHeader, error) {
	text, size, err := readNPYText(r, at)
	if err != nil {
		return nil, err
	}
	h, err := newNPYHeader(text, size, voids, at)
	if err != nil {
		return nil, err
	}
	switch rest := total - size; {
	case rest < h.bytes:
		return nil, at.errorf(core.ErrLayout, "data: shape %v of %v takes %d bytes, but %d follow the header: %s",
			h.layout.Shape(), h.dtype, h.bytes, rest, cutShort(size, rest, h.bytes))
	case rest > h.bytes:
		return nil, at.errorf(core.ErrLayout, "data: %d bytes follow the array, which has %d; a file holds one array", rest-h.bytes, h.bytes)
	}
	return h, nil
}

// newNPYHeader makes a header of its text. It has size bytes with what precedes the text.
func newNPYHeader(text []byte, size int64, voids []core.DType, at fault) (*npyHeader, error) {
	d, err := parseNPYDict(text, at)
	if err != nil {
		return nil, err
	}
	h := &npyHeader{size: size}
	if h.dtype, h.swapped, err = parseDescr(d.descr, nativeOrder, voids, at); err != nil {
		return nil, err
	}
	if h.layout, err = at.layout(d.shape, d.fortranOrder); err != nil {
		return nil, err
	}
	if h.bytes, err = h.dtype.Size(h.layout.NumElements(), false); err != nil {
		return nil, at.errorf(core.ErrLayout, "shape %v of %v overflows int64 bytes", d.shape, h.dtype)
	}
	return h, nil
}

// readNPYText reads everything before the elements. It returns the text of the dictionary and
// the number of bytes read.
func readNPYText(r io.Reader, at fault) (text []byte, size int64, err error) {
	read := func(field string, n int) []byte {
		if err != nil {
			return nil
		}
		field += " has %d bytes, but the file ends after %d of them"
		b := make([]byte, n)
		if got, e := io.ReadFull(r, b); errors.Is(e, io.EOF) || errors.Is(e, io.ErrUnexpectedEOF) {
			err = at.errorf(core.ErrLayout, field, n, got)
		} else if e != nil {
			err = at.errorf(because(core.ErrInvalid, e), field, n, got)
		}
		size += int64(n)
		return b
	}
	if magic := read("magic string", len(npyMagic)); err == nil && string(magic) != npyMagic {
		return nil, 0, at.errorf(core.ErrInvalid, "magic string is %s; an .npy file begins with %s", quote(string(magic)), quote(npyMagic))
	}
	version := read("format version", 2)
	if err != nil {
		return nil, 0, err
	}
	width := 4
	switch [2]byte(version) {
	case [2]byte{1, 0}:
		width = 2
	case [2]byte{2, 0}, [2]byte{3, 0}:
	default:
		return nil, 0, at.errorf(core.ErrVersion, "format version is %d.%d; known are 1.0, 2.0 and 3.0", version[0], version[1])
	}
	var wide [4]byte
	copy(wide[:], read("header length", width))
	length := binary.LittleEndian.Uint32(wide[:])
	if err == nil && length > npyMaxHeader {
		return nil, 0, at.errorf(core.ErrLayout, "header length is %d; at most %d bytes are read", length, npyMaxHeader)
	}
	text = read("header", int(length))
	return text, size, err
}

// npyDict is the dictionary of the header.
type npyDict struct {
	descr        string
	fortranOrder bool
	shape        []int64
}

// parseNPYDict parses a dictionary such as
//
//	{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//
// with its padding. The three keys may be in any order; other keys are errors. It accepts no
// other Python syntax, except for the suffix L that Python 2 writes after long integers.
func parseNPYDict(text []byte, at fault) (npyDict, error) {
	var d npyDict
	seen := make(map[string]bool)
	body, terminated := bytes.CutSuffix(text, []byte("\n"))
	s := &scanner{text: body, blank: " ", at: at}
	_, err := s.list("{}", true, "header", func(int) error {
		key, err := s.pythonString("header")
		if err != nil {
			return err
		}
		if seen[key] {
			return at.errorf(core.ErrInvalid, "key %s is there twice", quote(key))
		}
		seen[key] = true
		if !s.accept(':') {
			return s.expected("':'", quote(key))
		}
		return d.value(s, key)
	})
	if err != nil {
		return d, err
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return d, at.errorf(core.ErrInvalid, "key '%s' is missing", key)
		}
	}
	if s.peek() != 0 || s.pos < len(s.text) {
		return d, s.expected("spaces up to the end", "padding")
	}
	if !terminated {
		return d, at.errorf(core.ErrInvalid, "padding: the header does not end with a newline; is the header length %d right?", len(text))
	}
	return d, nil
}

// value reads the value of a key.
func (d *npyDict) value(s *scanner, key string) (err error) {
	switch key {
	case "descr":
		if c := s.peek(); c == '[' || c == '(' || c == '{' {
			return s.at.errorf(core.ErrNotSupported, "descr: structures have no DLPack type; save their fields as arrays of their own")
		}
		d.descr, err = s.pythonString(key)
	case "fortran_order":
		if d.fortranOrder = s.word("True"); !d.fortranOrder && !s.word("False") {
			return s.expected("True or False", key)
		}
	case "shape":
		var commas int
		d.shape, commas, err = s.extents(nil, "()", true, key, "L")
		if err == nil && len(d.shape) == 1 && commas == 0 {
			return s.at.errorf(core.ErrInvalid, "shape: (n) is a number; a tuple of one is written (n,)")
		}
	default:
		return s.at.errorf(core.ErrInvalid, "key %s is unknown; a header has descr, fortran_order and shape", quote(key))
	}
	return err
}

// pythonString reads a Python string of printable ASCII without escapes.
func (s *scanner) pythonString(field string) (string, error) {
	mark := s.peek()
	if mark != '\'' && mark != '"' {
		return "", s.expected("a string", field)
	}
	rest := s.text[s.pos+1:]
	end := bytes.IndexByte(rest, mark)
	if end < 0 {
		return "", s.expected("a string with an end", field)
	}
	for _, c := range rest[:end] {
		if c < ' ' || c > '~' || c == '\\' {
			return "", s.expected("a string of printable ASCII without escapes", field)
		}
	}
	s.pos += 1 + end + 1
	return string(rest[:end]), nil
}

// parseDescr parses an element type such as "<f4" or "bfloat16". native is the machine's byte order; swapped is set for the
// other one. Raw void has the first type of voids that has its size.
func parseDescr(descr string, native byte, voids []core.DType, at fault) (t core.DType, swapped bool, err error) {
	if t, ok := npyNamed[descr]; ok {
		return t, false, nil
	}
	if len(descr) < 2 || strings.IndexByte("<>|", descr[0]) < 0 {
		if t, err := core.ParseDType(descr); err == nil && t.SubByte() {
			return t, false, at.errorf(core.ErrNotSupported, "descr is %s: NumPy stores each element of this type in whole bytes; view the array as uint8 in NumPy", quote(descr))
		}
		return t, false, at.errorf(core.ErrDType, "descr is %s; it is the name of a type, or begins with a byte order, '<', '>' or '|', and a kind", quote(descr))
	}
	order, name := descr[0], descr[1:]
	t, ok := npyTypes[name]
	if size, void := voidSize(name); !ok && void {
		if t, ok = voidType(size, voids); !ok {
			return t, false, at.errorf(core.ErrNotSupported, "descr is %s: %s", quote(descr), voidReason)
		}
		return t, swapUnit(t) > 1 && order != '|' && order != native, nil
	}
	if !ok {
		if reason, known := npyKinds[name[0]]; known {
			return t, false, at.errorf(core.ErrNotSupported, "descr is %s: %s", quote(descr), reason)
		}
		return t, false, at.errorf(core.ErrDType, "descr is %s, which is not a type of NumPy", quote(descr))
	}
	if order == '|' && t.Bits > 8 {
		return t, false, at.errorf(core.ErrDType, "descr is %s: an element of several bytes has a byte order", quote(descr))
	}
	return t, swapUnit(t) > 1 && order != native, nil
}
