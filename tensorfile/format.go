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

// FormatOf returns the format that the extension of path names, in upper or lower case. It
// returns ErrNotSupported for any other extension.
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

// detect returns the format that the extension of name names. If it names none, detect
// looks at the first bytes of data.
func detect(name string, data []byte) (Format, error) {
	if f, err := FormatOf(name); err == nil {
		return f, nil
	}
	switch {
	case bytes.HasPrefix(data, []byte(npyMagic)):
		return NPY, nil
	case bytes.HasPrefix(data, []byte(zipLocalMark)), bytes.HasPrefix(data, []byte(zipEndMark)): // an archive with a member, or an empty one
		return NPZ, nil
	case len(data) > lengthSize && data[lengthSize] == '{':
		return Safetensors, nil
	}
	if is := foreign("", data); is != "" {
		return "", core.Errorf(core.ErrNotSupported, "tensorfile", "Open", "%s is %s", strconv.Quote(name), is)
	}
	return "", core.Errorf(core.ErrNotSupported, "tensorfile", "Open",
		"%s: neither the extension nor the first bytes are those of .npy, .npz or .safetensors", strconv.Quote(name))
}

// nativeOrder is the byte order of this machine, as NumPy writes it.
var nativeOrder = func() byte {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return '<'
	}
	return '>'
}()

// fault makes errors about a file, or about a part of it.
type fault struct {
	format Format
	call   string
	where  string // the part of the file, such as `member "x": `
	// The part of that part, which becomes text only in an error, since headers of many tensors have many of them.
	kind, name string
}

// errorf returns an error that wraps the sentinel err.
func (f fault) errorf(err error, format string, args ...any) error {
	e := core.Errorf(err, string(f.format), f.call, format, args...)
	e.Detail = f.place() + e.Detail
	return e
}

// named returns err with the name of the file in its text, if it is a *core.Error without it. It returns nil for nil.
func named(err error, name string) error {
	if err == nil {
		return nil
	}
	if text := err.Error(); name == "" || strings.Contains(text, name) || strings.Contains(text, strconv.Quote(name)) {
		return err
	}
	return prefixed(err, strconv.Quote(name))
}

// prefixed returns err with a text before what it says, if it is a *core.Error.
func prefixed(err error, text string) error {
	e, ok := err.(*core.Error) //nolint:errorlint // only the outermost error can get the text
	if !ok {
		return err
	}
	with := *e
	with.Detail = text + ": " + e.Detail
	return &with
}

// cutShort returns the text for a file that has too few bytes after a header, which ends at byte base.
func cutShort(base, has, needs int64) string {
	return fmt.Sprintf("it has %d bytes and should have %d, so it was cut short: copy or download it again", base+has, uint64(base)+uint64(needs))
}

// because returns an error that wraps a sentinel error and the cause.
func because(sentinel, cause error) error { return fmt.Errorf("%w: %w", sentinel, cause) }

// in returns a fault for a named part of the file.
func (f fault) in(kind, name string) fault {
	f.where, f.kind, f.name = f.place(), kind, name
	return f
}

// place returns the text for the part of the file.
func (f fault) place() string {
	if f.kind == "" {
		return f.where
	}
	return f.where + f.kind + " " + quote(f.name) + ": "
}

// layout returns the row-major or column-major layout of a shape.
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

// longestQuote is how many bytes of a text from a file are quoted in an error.
const longestQuote = 64

// quote quotes a text from a file for an error, and shortens it.
func quote(text string) string {
	if len(text) > longestQuote {
		text = text[:longestQuote] + "..."
	}
	return strconv.Quote(text)
}
