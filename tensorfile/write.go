package tensorfile

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"syscall"
	"unicode/utf8"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/atomicfile"
	"github.com/dlx-go/dlx/internal/memfault"
)

// Named is a tensor with the name that it has in a file.
type Named struct {
	Name   string
	Tensor *core.Tensor
}

// WriteFile writes a file of the format that the extension of path names; see
// [Write]. The file appears under its name only when it is whole and on the disk,
// replacing one that was there; after an error, the end of ctx included, nothing of
// it is left. Whoever has the replaced file open keeps its content.
//
// A file that is replaced passes its permissions on, and its owner and group as far
// as the process may set them. A symbolic link stays, and the file that it leads to
// is replaced or made. A hard link to the replaced file keeps the old content.
// WriteFile fails with ErrInvalid on a directory, a pipe, a socket or a device; a
// program writes to a pipe with Write.
func WriteFile(ctx context.Context, path string, tensors []Named, opts ...WriteOption) error {
	format, err := FormatOf(path)
	if err != nil {
		return err
	}
	err = atomicfile.Write(ctx, path, func(w io.Writer) error { return Write(ctx, w, format, tensors, opts...) })
	var typed *core.Error
	if err == nil || errors.As(err, &typed) {
		return err
	}
	return fault{format: format, call: "Write"}.errorf(because(core.ErrInvalid, err), "%s was not written", path)
}

// Write writes tensors in host-accessible memory to w, each after the last write
// to it is done. They stay the caller's. Any strides may be written: npy and npz
// keep column-major tensors as they lie, all others become row-major. An .npy
// holds one tensor and not its name; a .safetensors is sorted by type and name as
// by its reference implementation. Names in an .npz may be any bytes, as in those
// that are read.
//
// It fails with ErrInvalid (a nil tensor, a name that is twice there or not allowed,
// one that is not UTF-8 for safetensors, a number of tensors other than 1 for npy, a
// failure of w, elements in a mapped file that was truncated),
// ErrNotSupported (an element type, lanes or an option that the format does not
// have; padded sub-byte elements, or packed ones that are not contiguous),
// ErrLayout (packed elements that do not fill their last byte), ErrDevice,
// ErrClosed, or the error of the last write to a tensor.
func Write(ctx context.Context, w io.Writer, format Format, tensors []Named, opts ...WriteOption) error {
	at := fault{format: format, call: "Write"}
	o := newWriteOptions(opts)
	switch {
	case o.compress && format != NPZ:
		return at.errorf(core.ErrNotSupported, "the format has no compression; .npz has")
	case o.metadata != nil && format != Safetensors:
		return at.errorf(core.ErrNotSupported, "the format has no metadata; .safetensors has")
	}
	sources, err := readSources(ctx, tensors, at)
	defer func() {
		for _, s := range sources {
			_ = s.memory.Close()
		}
	}()
	if err != nil {
		return err
	}
	var gone memfault.Error
	if errors.As(memfault.Guard(within(sources), func() { err = writeFormat(w, format, sources, o, at) }), &gone) {
		for _, s := range sources {
			if memfault.Within(s.bytes)(gone.Address) {
				at = at.in("tensor", s.name)
			}
		}
		return at.errorf(because(core.ErrInvalid, gone), "its elements cannot be read")
	}
	if errors.Is(err, syscall.EFAULT) { // the system's word for a fault in a call of its own
		return at.errorf(because(core.ErrInvalid, err), "elements cannot be read: was a file that is mapped truncated?")
	}
	return err
}

// CanWrite returns nil if [Write] can write tensors of these names, element types and
// shapes, or else the error that Write would return. A program calls it before long work
// whose result it is going to write. It does not look at the other fields of tensors.
func CanWrite(format Format, tensors []Info) error {
	at := fault{format: format, call: "Write"}
	if !slices.Contains([]Format{NPY, NPZ, Safetensors}, format) {
		return unknownFormat(format)
	}
	seen := make(map[string]bool, len(tensors))
	for _, t := range tensors {
		if seen[t.Name] {
			return at.in("tensor", t.Name).twice()
		}
		seen[t.Name] = true
	}
	if err := checkCount(format, len(tensors), at); err != nil {
		return err
	}
	for _, t := range tensors {
		at := at.in("tensor", t.Name)
		err := checkName(format, t.Name, at)
		switch {
		case err != nil:
		case format == Safetensors:
			err = checkSafetensors(t, at)
		default:
			_, err = npyDescr(t.DType, nativeOrder, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkCount refuses a number of tensors that the format has no room for.
func checkCount(format Format, n int, at fault) error {
	if format == NPY && n != 1 {
		return at.errorf(core.ErrInvalid, "%d tensors: an .npy holds exactly one; .npz holds many", n)
	}
	return nil
}

// checkName refuses a name that the format does not allow.
func checkName(format Format, name string, at fault) error {
	switch {
	case format == NPZ && len(name) > math.MaxUint16-len(".npy"):
		return at.errorf(core.ErrInvalid, "the name has %d bytes; an archive allows %d", len(name), math.MaxUint16-len(".npy"))
	case format == Safetensors && name == metadataName:
		return at.errorf(core.ErrInvalid, "the name is the format's own")
	case format == Safetensors && !utf8.ValidString(name):
		return at.errorf(core.ErrInvalid, "the name is not UTF-8: rename the tensor, or write an .npz, which takes any name")
	}
	return nil
}

// twice is the error for a second tensor of one name.
func (f fault) twice() error { return f.errorf(core.ErrInvalid, "the name is there twice") }

// unknownFormat is the error for a format that is none.
func unknownFormat(format Format) error {
	return core.Errorf(core.ErrNotSupported, "tensorfile", "Write", "format %s: known are npy, npz and safetensors", quote(string(format)))
}

// within is the concern for faults in the memory of sources.
func within(sources []*source) func(address uintptr) bool {
	return func(address uintptr) bool {
		return slices.ContainsFunc(sources, func(s *source) bool { return memfault.Within(s.bytes)(address) })
	}
}

// writeFormat writes sources that are ready.
func writeFormat(w io.Writer, format Format, sources []*source, o writeOptions, at fault) error {
	switch format {
	case NPY:
		return writeNPY(w, sources, at)
	case NPZ:
		return writeNPZ(w, sources, o.compress, at)
	case Safetensors:
		return writeSafetensors(w, sources, o.metadata, at)
	}
	return unknownFormat(format)
}

// readSources makes the tensors ready to be written. The caller closes the memory
// of what is returned, on failure too.
func readSources(ctx context.Context, tensors []Named, at fault) ([]*source, error) {
	sources := make([]*source, 0, len(tensors))
	seen := make(map[string]bool, len(tensors))
	for _, t := range tensors {
		at := at.in("tensor", t.Name)
		switch {
		case t.Tensor == nil:
			return sources, at.errorf(core.ErrInvalid, "it is nil")
		case seen[t.Name]:
			return sources, at.twice()
		}
		seen[t.Name] = true
		s, err := newSource(ctx, t, at)
		if err != nil {
			return sources, err
		}
		sources = append(sources, s)
	}
	return sources, nil
}
