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

// Named is a tensor with its name in a file.
type Named struct {
	Name   string
	Tensor *core.Tensor
}

// WriteFile writes tensors to a file, in the format that the extension of path names; see
// [Write]. The file appears at path only when it is complete and on the disk, and replaces
// an existing file. If WriteFile fails, or ctx ends, it leaves nothing behind. A program that
// has the replaced file open keeps the old content.
//
// The new file has the permissions of the file that it replaces, and its owner and group if
// the process may set them. If path is a symbolic link, the link stays and its target is
// replaced or made. A hard link to the replaced file keeps the old content. WriteFile returns
// ErrInvalid if path is a directory, a pipe, a socket or a device; use Write for a pipe.
func WriteFile(ctx context.Context, path string, tensors []Named, options WriteOptions) error {
	return writeFile(ctx, path, tensors, writing{WriteOptions: options})
}

func writeFile(ctx context.Context, path string, tensors []Named, o writing) error {
	format, err := FormatOf(path)
	if err != nil {
		return err
	}
	err = atomicfile.Write(ctx, path, func(w io.Writer) error { return writeTo(ctx, w, format, tensors, o) })
	return notWritten("Write", format, path, err)
}

// notWritten returns the error of a call for a file that could not be written because of err, which may be nil.
func notWritten(call string, format Format, path string, err error) error {
	var typed *core.Error
	if err == nil || errors.As(err, &typed) {
		return err
	}
	return fault{format: format, call: call}.errorf(because(core.ErrInvalid, err), "%s was not written", path)
}

// Write writes tensors to w, as the content of a file of a format. The caller still owns the
// tensors. They may lie on the host or on any opened device, and have any strides: in npy and
// npz, column-major tensors stay column-major; all others are written in row-major order. An
// .npy file holds one tensor and no name. A .safetensors file is sorted by type and name, as
// by the reference implementation. A name in an .npz file may contain any bytes.
//
// Write waits for the last write to each tensor. Elements that the host cannot access come
// through two buffers of bounded size (see [WriteOptions]): the device fills one while the other is
// written. Contents of .safetensors and .npy files can follow each other in a pipe or a
// connection; [Read] reads them.
//
// If ctx ends, Write returns its error before the next piece. If w is a connection, Write does
// not wait for it either: it sets the write deadline for that, and removes it before it
// returns. Close any other w to end a call that blocks.
//
// Write returns
//
//   - ErrInvalid if w or a tensor is nil, a name repeats, the format does not allow a name or the
//     number of tensors, an option is out of range, or w fails;
//   - ErrInvalid if a tensor lies in a mapped file that was truncated;
//   - ErrNotSupported if the format lacks the element type or an option, or elements of
//     fewer than 8 bits are padded or not contiguous;
//   - ErrLayout if packed elements do not fill their last byte;
//   - ErrDevice if a tensor lies where neither the host nor an opened device can access it,
//     ErrClosed if one is closed, the error of the last write to one, or an error of [core.Device.Copy].
func Write(ctx context.Context, w io.Writer, format Format, tensors []Named, options WriteOptions) error {
	return writeTo(ctx, w, format, tensors, writing{WriteOptions: options})
}

func writeTo(ctx context.Context, w io.Writer, format Format, tensors []Named, o writing) (err error) {
	at := fault{format: format, call: "Write"}
	switch {
	case nothing(w):
		return at.errorf(core.ErrInvalid, "the writer is nil")
	case o.Compress && format != NPZ:
		return at.errorf(core.ErrNotSupported, "the format has no compression; .npz has")
	case o.Metadata != nil && format != Safetensors:
		return at.errorf(core.ErrNotSupported, "the format has no metadata; .safetensors has")
	case o.Budget != 0 && o.Budget < minBudget:
		return at.tooSmall(o.Budget)
	}
	if o.fetch == nil {
		o.fetch = newFetcher(ctx, SaveOptions{Budget: o.Budget})
		defer func() {
			if closing := o.fetch.close(); err == nil {
				err = closing
			}
		}()
	}
	to, stop := newContextWriter(ctx, w)
	defer stop()
	return typedOrContext(ctx, write(ctx, to, format, tensors, o, at))
}

// write is Write with checked options.
func write(ctx context.Context, w io.Writer, format Format, tensors []Named, o writing, at fault) error {
	sources, err := readSources(ctx, tensors, o.fetch, at)
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
	if errors.Is(err, syscall.EFAULT) { // a system call could not read the memory
		return at.errorf(because(core.ErrInvalid, err), "elements cannot be read: was a file that is mapped truncated?")
	}
	return err
}

// tooSmall returns the error for a budget that is not 0.
func (f fault) tooSmall(budget int64) error {
	return f.errorf(core.ErrInvalid, "a budget of %d bytes: it must be at least %d", budget, minBudget)
}

// CanWrite returns nil if [Write] can write tensors with these names, element types and
// shapes, or the error that Write would return. Call it before long work whose result is to
// be written. It ignores the other fields of tensors.
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

// checkCount returns an error if the format cannot hold n tensors.
func checkCount(format Format, n int, at fault) error {
	if format == NPY && n != 1 {
		return at.errorf(core.ErrInvalid, "%d tensors: an .npy holds exactly one; .npz holds many", n)
	}
	return nil
}

// checkName returns an error for a name that the format does not allow.
func checkName(format Format, name string, at fault) error {
	switch {
	case format == NPZ && len(name) > math.MaxUint16-len(".npy"):
		return at.errorf(core.ErrInvalid, "the name has %d bytes; an archive allows %d", len(name), math.MaxUint16-len(".npy"))
	case format == Safetensors && name == metadataName:
		return at.errorf(core.ErrInvalid, "the format reserves the name")
	case format == Safetensors && !utf8.ValidString(name):
		return at.errorf(core.ErrInvalid, "the name is not UTF-8: rename the tensor, or write an .npz, which takes any name")
	}
	return nil
}

// twice returns the error for a second tensor with the same name.
func (f fault) twice() error { return f.errorf(core.ErrInvalid, "the name is there twice") }

// unknownFormat returns the error for an unknown format.
func unknownFormat(format Format) error {
	return core.Errorf(core.ErrNotSupported, "tensorfile", "Write", "format %s: known are npy, npz and safetensors", quote(string(format)))
}

// within returns a function that reports whether an address lies in the memory of sources.
func within(sources []*source) func(address uintptr) bool {
	return func(address uintptr) bool {
		return slices.ContainsFunc(sources, func(s *source) bool { return memfault.Within(s.bytes)(address) })
	}
}

// writeFormat writes sources in a format.
func writeFormat(w io.Writer, format Format, sources []*source, o writing, at fault) error {
	switch format {
	case NPY:
		return writeNPY(w, sources, at)
	case NPZ:
		return writeNPZ(w, sources, o.Compress, at)
	case Safetensors:
		return writeSafetensors(w, sources, o.Metadata, at)
	}
	return unknownFormat(format)
}

// readSources makes sources of tensors. The caller closes the memory of the sources that are
// returned, also if readSources fails.
func readSources(ctx context.Context, tensors []Named, fetch *fetcher, at fault) ([]*source, error) {
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
		var s *source
		var err error
		if !t.Tensor.DeviceID().Type.HostAccessible() {
			s, err = newFetched(t, fetch, at)
		} else {
			s, err = newSource(ctx, t, at)
		}
		if err != nil {
			return sources, err
		}
		sources = append(sources, s)
	}
	return sources, nil
}
