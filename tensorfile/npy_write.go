package tensorfile

import (
	"io"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// growthDigits is the number of digits that NumPy reserves for the extent of the axis along
// which an array in a file can grow.
const growthDigits = 21

// writeNPY writes an .npy file with the one source.
func writeNPY(w io.Writer, sources []*source, at fault) error {
	if err := checkCount(NPY, len(sources), at); err != nil {
		return err
	}
	return sources[0].writeNPY(w, at.in("tensor", sources[0].name))
}

// writeNPY writes an array, byte by byte as NumPy would.
func (s *source) writeNPY(w io.Writer, at fault) error {
	descr, err := npyDescr(s.dtype, nativeOrder, at)
	if err != nil {
		return err
	}
	layout, columnMajor := s.columnMajor()
	if _, err = io.WriteString(w, npyHeaderText(descr, columnMajor, s.layout.Shape())); err == nil {
		err = s.write(w, layout)
	}
	if err != nil {
		return at.errorf(because(core.ErrInvalid, err), "writing failed")
	}
	return nil
}

// npyDescr returns the descr of an element type. native is the machine's byte order.
func npyDescr(t core.DType, native byte, at fault) (string, error) {
	for name, known := range npyTypes {
		switch {
		case known != t:
		case t.Bits == 8:
			return "|" + name, nil
		default:
			return string(native) + name, nil
		}
	}
	return "", at.errorf(core.ErrNotSupported, "NumPy has no element type %v; .safetensors has more types", t)
}

// npyHeaderText returns everything that precedes the elements, in format version 1.0. Its
// limit for the length of a header is never reached.
func npyHeaderText(descr string, columnMajor bool, shape []int64) string {
	const fixed = len(npyMagic) + 2 + 2 // with version and length
	var b strings.Builder
	order := "False"
	if columnMajor {
		order = "True"
	}
	b.WriteString("{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': (")
	for i, extent := range shape {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.FormatInt(extent, 10))
		if i < len(shape)-1 || i == 0 {
			b.WriteByte(',')
		}
	}
	b.WriteString("), }")
	if n := len(shape); n > 0 {
		grows := shape[0]
		if columnMajor {
			grows = shape[n-1]
		}
		b.WriteString(strings.Repeat(" ", growthDigits-len(strconv.FormatInt(grows, 10))))
	}
	b.WriteString(strings.Repeat(" ", npyAlignment-(fixed+b.Len()+1)%npyAlignment))
	b.WriteByte('\n')
	length := b.Len()
	return npyMagic + "\x01\x00" + string([]byte{byte(length), byte(length >> 8)}) + b.String()
}
