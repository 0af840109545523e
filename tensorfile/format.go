package tensorfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// Format is a file format. Errors carry it as their Backend.
type Format string

// The formats.
const (
	NPY         Format = "npy"         // one array of NumPy
	NPZ         Format = "npz"         // a ZIP archive of arrays of NumPy
	Safetensors Format = "safetensors" // named tensors after a JSON header
)

// FormatOf gives the format that the extension of path names, in any case. It
// fails with ErrNotSupported for any other extension.
func FormatOf(path string) (Format, error) {
	extension := filepath.Ext(path)
	for _, f := range []Format{NPY, NPZ, Safetensors} {
		if strings.EqualFold(extension, "."+string(f)) {
			return f, nil
		}
	}
	return "", core.Errorf(core.ErrNotSupported, "tensorfile", "FormatOf",
		"extension %q: the formats are .npy, .npz and .safetensors", extension)
}

// detect gives the format that the extension of name promises or, if that names
// none, the one that the data begins like.
func detect(name string, data []byte) (Format, error) {
	if f, err := FormatOf(name); err == nil {
		return f, nil
	}
	switch {
	case bytes.HasPrefix(data, []byte(npyMagic)):
		return NPY, nil
	case bytes.HasPrefix(data, []byte(zipLocalMark)), bytes.HasPrefix(data, []byte(zipEndMark)): // a member; an empty archive
		return NPZ, nil
	case len(data) > lengthSize && data[lengthSize] == '{':
		return Safetensors, nil
	}
	return "", core.Errorf(core.ErrNotSupported, "tensorfile", "Open",
		"%s: neither the extension nor the first bytes are those of .npy, .npz or .safetensors", strconv.Quote(name))
}

// nativeOrder is this machine's byte order, in NumPy's spelling.
var nativeOrder = func() byte {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return '<'
	}
	return '>'
}()

// fault makes the errors about one file.
type fault struct {
	format Format
	call   string
	where  string // the part of the file that is looked at, such as `tensor "x": `
}

// errorf makes an error around the sentinel err.
func (f fault) errorf(err error, format string, args ...any) error {
	e := core.Errorf(err, string(f.format), f.call, format, args...)
	e.Detail = f.where + e.Detail
	return e
}

// because puts the sentinel that callers look for before the cause.
func because(sentinel, cause error) error { return fmt.Errorf("%w: %w", sentinel, cause) }

// in makes the errors about a named part of the file.
func (f fault) in(kind, name string) fault {
	f.where += kind + " " + quote(name) + ": "
	return f
}

// layout lays a shape out row-major or, if so said, column-major.
func (f fault) layout(shape []int64, columnMajor bool) (core.Layout, error) {
	l, err := core.NewLayout(shape...)
	if err == nil && columnMajor {
		reversed := slices.Clone(shape)
		slices.Reverse(reversed)
		if l, err = core.NewLayout(reversed...); err == nil {
			l, err = transpose(l)
		}
	}
	if err != nil {
		return core.Layout{}, f.errorf(core.ErrLayout, "shape %v has more elements than an int64 counts", shape)
	}
	return l, nil
}

// transpose reverses the order of the axes.
func transpose(l core.Layout) (core.Layout, error) {
	axes := make([]int, l.Rank())
	for i := range axes {
		axes[i] = len(axes) - 1 - i
	}
	return l.Permute(axes...)
}

// longestQuote bounds what an error repeats of a file.
const longestQuote = 64

// quote makes text of the file fit for an error.
func quote(text string) string {
	if len(text) > longestQuote {
		text = text[:longestQuote] + "..."
	}
	return strconv.Quote(text)
}
