package tensorfile

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"unicode/utf8"

	"github.com/dlx-go/dlx/core"
)

// Named is a tensor with the name that it has in a file.
type Named struct {
	Name   string
	Tensor *core.Tensor
}

// WriteFile writes a file of the format that the extension of path names; see
// [Write]. The file appears under its name only when it is whole and on the disk,
// replacing one that was there; after an error nothing of it is left. Whoever has
// the replaced file open keeps its content.
func WriteFile(ctx context.Context, path string, tensors []Named, opts ...WriteOption) error {
	format, err := FormatOf(path)
	if err != nil {
		return err
	}
	err = replaceFile(path, func(w io.Writer) error { return Write(ctx, w, format, tensors, opts...) })
	var typed *core.Error
	if err == nil || errors.As(err, &typed) {
		return err
	}
	return fault{format: format, call: "Write"}.errorf(because(core.ErrInvalid, err), "%s was not written", path)
}

// replaceFile lets fill write a new file beside path and gives it that name when
// it is whole.
func replaceFile(path string, fill func(io.Writer) error) error {
	temporary := path + "." + strconv.FormatUint(rand.Uint64(), 36) + ".tmp"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if err = fill(file); err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // the error that led here says more
	}
	return err
}

// Write writes tensors in host-accessible memory to w, each after the last write
// to it is done. They stay the caller's. Any strides may be written: npy and npz
// keep column-major tensors as they lie, all others become row-major. An .npy
// holds one tensor and not its name; a .safetensors is sorted by type and name as
// by its reference implementation.
//
// It fails with ErrInvalid (a nil tensor, a name that is twice there, not UTF-8
// or not allowed, a number of tensors other than 1 for npy, a failure of w),
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
	switch format {
	case NPY:
		return writeNPY(w, sources, at)
	case NPZ:
		return writeNPZ(w, sources, o.compress, at)
	case Safetensors:
		return writeSafetensors(w, sources, o.metadata, at)
	}
	return core.Errorf(core.ErrNotSupported, "tensorfile", "Write", "format %s: known are npy, npz and safetensors", quote(string(format)))
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
			return sources, at.errorf(core.ErrInvalid, "the name is there twice")
		case !utf8.ValidString(t.Name):
			return sources, at.errorf(core.ErrInvalid, "the name is not UTF-8")
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
