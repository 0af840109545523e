package tensorfile

import (
	"cmp"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/internal/memfault"
)

// Info describes a tensor of a file.
type Info struct {
	Name       string     `json:"name"`
	File       string     `json:"file,omitempty"` // the path of the file that has it, if an index or a folder was opened
	DType      core.DType `json:"dtype,omitzero"`
	Shape      []int64    `json:"shape,omitzero"`
	Strides    []int64    `json:"strides,omitzero"`     // in elements
	Offset     int64      `json:"offset"`               // bytes from the start of the file to the elements, or to the compressed member
	Bytes      int64      `json:"bytes"`                // of the elements
	Compressed bool       `json:"compressed,omitempty"` // File.Tensor inflates it
	Swapped    bool       `json:"swapped,omitempty"`    // the file has the other byte order: File.Tensor returns a copy in that of this machine
	InPlace    bool       `json:"in_place"`             // File.Tensor returns the file's memory, not a copy
	// Reason says why a member of an archive cannot be returned by File.Tensor. It is
	// empty if it can. If it is not empty, the type and the shape are not known.
	Reason string `json:"reason,omitempty"`
}

// entry is a tensor of a file, or a member of an archive that cannot be one. There may be very many, so that it is small:
// what few formats need is in more.
type entry struct {
	Name       string
	dims       []int64 // the extents, then the strides; nil if the entry is no tensor
	Offset     int64
	Bytes      int64
	DType      core.DType
	Compressed bool
	Swapped    bool
	InPlace    bool
	*more      // never nil; nothingMore for most
}

// more is what a tensor of a single .safetensors or .npy file does not have.
type more struct {
	err    error   // the error whose text is Info.Reason
	member *member // the member of an archive; nil in other formats
	part   *File   // the file that has it; nil if that is the one that has the entry
	file   string  // the path of part
}

// nothingMore is shared, and never changed.
var nothingMore = &more{}

// Shape returns the extents, which the caller must not change.
func (e *entry) Shape() []int64 { return e.dims[: len(e.dims)/2 : len(e.dims)/2] }

// Strides returns the strides in elements, which the caller must not change.
func (e *entry) Strides() []int64 { return e.dims[len(e.dims)/2:] }

// info describes the tensor for users.
func (e *entry) info() Info {
	i := Info{
		Name: e.Name, File: e.file, DType: e.DType, Shape: slices.Clone(e.Shape()), Strides: slices.Clone(e.Strides()), Offset: e.Offset, Bytes: e.Bytes,
		Compressed: e.Compressed, Swapped: e.Swapped, InPlace: e.InPlace,
	}
	if e.err != nil {
		i.Reason = e.err.Error()
	}
	return i
}

// File is an open file of tensors, or several that an index or a folder names. It is safe for concurrent use.
type File struct {
	format   Format
	opts     opening
	entries  []entry
	index    nameIndex
	metadata map[string]string
	share    *share  // nil if there are parts
	parts    []*File // of an index or a folder; each owns its mapping
}

// share is the reference of a File to its mapping. It is a separate object, so that a cleanup
// can release it after the garbage collector finds that the File is lost.
type share struct {
	mu sync.Mutex
	m  *mapping // nil once closed
}

// Open maps a file and reads its headers. The extension of path determines the format. If it
// is none of the known extensions, the first bytes of the file do. The tensor in an .npy file
// has the name of the file, without directory and extension.
//
// Open also takes an index of several .safetensors files, or a folder, as [Load] does. It maps
// all files. The File has the tensors that the index names, or all that are in the files of a
// folder without an index, and each names its file ([Info.File]).
//
// The caller closes the file; its tensors stay valid until they are closed. Open returns
//
//   - ErrInvalid if the file cannot be opened or its header is malformed; errors.Is also finds
//     the system's error, such as fs.ErrNotExist;
//   - ErrLayout if a shape, an offset or a length contradicts the size of the file, an index
//     names a tensor that its file does not have, or two files of a folder have the same tensor;
//   - ErrDType for an element type that the format does not define;
//   - ErrVersion for an unknown format version;
//   - ErrNotSupported for something that the format allows but a tensor cannot express.
func Open(path string, options OpenOptions) (*File, error) {
	if info, err := os.Stat(path); err == nil && (info.IsDir() || isIndex(path)) {
		return openAll(path, options)
	}
	return openOne(path, options)
}

// openOne opens a file that is neither an index nor a folder.
func openOne(path string, options OpenOptions) (*File, error) {
	m, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	return open(m, path, opening{OpenOptions: options})
}

// Parse is like [Open], for a file in memory. name is used as its path. The caller still owns
// data, and must not change it until the file and its tensors are closed, because the tensors
// are views of it.
func Parse(data []byte, name string, options OpenOptions) (*File, error) {
	return open(newMapping(data, nil), name, opening{OpenOptions: options})
}

// open makes a File of a mapping. It takes ownership of m even if it fails.
func open(m *mapping, name string, o opening) (*File, error) {
	o.VoidAs = slices.Clone(o.VoidAs)
	f := &File{opts: o, share: &share{m: m}}
	if err := o.check(); err != nil {
		m.Free()
		return nil, err
	}
	var err error
	if gone := memfault.Guard(memfault.Within(m.data), func() { err = f.read(m.data, name) }); gone != nil {
		err = fault{format: cmp.Or(f.format, "tensorfile"), call: "Open"}.errorf(because(core.ErrInvalid, gone), "reading the headers failed")
	}
	if err != nil {
		m.Free()
		return nil, named(err, name)
	}
	runtime.AddCleanup(f, (*share).close, f.share)
	return f, nil
}

// read reads the headers and sets the fields of f.
func (f *File) read(data []byte, name string) (err error) {
	if f.format, err = detect(name, data); err != nil {
		return err
	}
	if err := refuseForeign(f.format, data); err != nil {
		return err
	}
	at := fault{format: f.format, call: "Open"}
	switch f.format {
	case NPY:
		base := filepath.Base(name)
		f.entries, err = readNPY(data, strings.TrimSuffix(base, filepath.Ext(base)), f.opts.VoidAs, at)
	case NPZ:
		f.entries, err = readNPZ(data, f.opts.VoidAs, at)
	case Safetensors:
		f.entries, f.metadata, err = readSafetensors(data, f.opts, at)
		f.opts.each, f.opts.header = nil, nil
	}
	if err != nil {
		return err
	}
	f.index.entries = f.entries
	if f.format != Safetensors || !f.opts.unindexed {
		if name, repeats := f.index.build(); repeats {
			return repeatedTensor(name, at)
		}
	}
	for i := range f.entries {
		e := &f.entries[i]
		e.InPlace = e.err == nil && !e.Compressed && !e.Swapped && (f.opts.Unaligned || aligned(e.DType, e.bytes(data)))
	}
	return nil
}

// bytes returns the bytes of the elements in file. The readers of the formats have checked
// that they exist.
func (e *entry) bytes(file []byte) []byte { return file[e.Offset:][:e.Bytes:e.Bytes] }

// aligned reports whether data is aligned for elements of type t. A complex number needs the
// alignment of its parts.
func aligned(t core.DType, data []byte) bool {
	bits := t.Bits
	if t.Code == typecode.Complex {
		bits /= 2
	}
	return bits <= 8 || address(data)%uintptr(bits/8) == 0
}

// Format returns the format of the file. An index or a folder has that of its files.
func (f *File) Format() Format { return f.format }

// Tensors lists the tensors in the file. A .safetensors file lists them in the order of
// their data, an .npz file in the order of its directory, an index or a folder file by file in
// the order of their names.
func (f *File) Tensors() []Info {
	infos := make([]Info, len(f.entries))
	for i := range f.entries {
		infos[i] = f.entries[i].info()
	}
	return infos
}

// Metadata returns a copy of the metadata of a .safetensors file, which are keys with texts.
// It returns nil if there are none, and for other formats. An index or a folder has the keys
// for which all its files that have them have the same text.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Tensor returns the tensor of the given name. It lies on the host, is read-only and belongs
// to no opened device. The caller closes it. It keeps the mapping open, and may be closed
// after the file. Each call returns a new tensor, and inflates compressed data again.
//
// If the tensor is in place (see [Info]), its memory is the whole file, and its offset is the
// position of its elements in the file. If the file is mapped, that memory begins at a page,
// as a [core.HostMapper] needs it.
//
// Tensor returns ErrInvalid if there is no such tensor, the file was truncated, or the data
// of a member of an archive does not match its checksum; see [OpenOptions]. It returns
// ErrClosed if the file was closed, ErrOutOfMemory if the data would inflate to more than
// InflateLimit or a copy of it does not fit into memory, and the error whose text is the Reason of [Info], if it has one.
func (f *File) Tensor(name string) (*core.Tensor, error) {
	at := fault{format: f.format, call: "Tensor"}
	e := f.index.find(name)
	if e == nil {
		return nil, at.errorf(core.ErrInvalid, "the file has no tensor %s", quote(name))
	}
	if e.part != nil {
		t, err := e.part.Tensor(name)
		return t, named(err, e.file)
	}
	if e.err != nil {
		return nil, e.err
	}
	m := f.share.retain()
	if m == nil {
		return nil, at.errorf(core.ErrClosed, "the file was closed")
	}
	offset := e.Offset
	if e.InPlace && f.opts.VerifyChecksums {
		if err := e.verify(m.data, at.in("tensor", name)); err != nil {
			m.Free()
			return nil, err
		}
	}
	if !e.InPlace {
		data, err := f.load(e, m.data, at.in("tensor", name))
		m.Free()
		if err != nil {
			return nil, err
		}
		if e.Swapped {
			swapBytes(data, e.DType)
		}
		m, offset = newMapping(data, nil), 0
	}
	t, err := core.Wrap(
		core.Memory{ID: core.CPU, Handle: address(m.data), Size: int64(len(m.data)), Owner: m, ReadOnly: m.unmap != nil},
		core.Spec{DType: e.DType, Shape: e.Shape(), Strides: e.Strides(), Offset: offset, Flags: core.FlagReadOnly},
	)
	if err != nil {
		m.Free()
		return nil, err
	}
	return t, nil
}

// load returns a copy of the elements of e as the file has them, inflated if they are compressed.
func (f *File) load(e *entry, file []byte, at fault) (data []byte, err error) {
	gone := memfault.Guard(memfault.Within(file), func() {
		if e.Compressed {
			data, err = e.member.inflate(e.Bytes, f.opts.inflateLimit(), at)
			return
		}
		if data, err = allocate(int(e.Bytes)); err != nil {
			err = at.errorf(err, "its %d bytes cannot be copied", e.Bytes)
			return
		}
		copy(data, e.bytes(file))
		err = e.checkSum(file, data, at)
	})
	if gone != nil {
		return nil, at.unreadable(gone)
	}
	return data, err
}

// verify compares the elements in the bytes of the file with their checksum.
func (e *entry) verify(file []byte, at fault) (err error) {
	gone := memfault.Guard(memfault.Within(file), func() { err = e.checkSum(file, e.bytes(file), at) })
	if gone != nil {
		return at.unreadable(gone)
	}
	return err
}

// checkSum compares the elements of a stored member, or a copy of them, with the checksum in
// the directory of the archive. Other formats have no checksums. Like archive/zip, it treats
// a checksum of 0 as not recorded.
func (e *entry) checkSum(file, elements []byte, at fault) error {
	if e.member == nil || e.member.file.CRC32 == 0 {
		return nil
	}
	header := file[e.Offset-e.member.header : e.Offset]
	if got := crc32.Update(crc32.ChecksumIEEE(header), crc32.IEEETable, elements); got != e.member.file.CRC32 {
		return at.errorf(core.ErrInvalid, "its data is damaged: the checksum is %08x, the central directory has %08x", got, e.member.file.CRC32)
	}
	return nil
}

// unreadable returns the error for elements in a mapped file that was truncated.
func (f fault) unreadable(gone error) error {
	return f.errorf(because(core.ErrInvalid, gone), "its elements cannot be read")
}

// Close closes the file. Its tensors stay valid until they are closed. Close always returns
// nil; the result makes File an io.Closer. A second Close does nothing.
func (f *File) Close() error {
	for _, part := range f.parts {
		_ = part.Close() // always nil
	}
	if f.share != nil { // of a zero File it is
		f.share.close()
	}
	return nil
}

// retain adds a reference for the caller and returns the mapping, nil if the file is closed.
func (s *share) retain() *mapping {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m != nil {
		s.m.retain()
	}
	return s.m
}

// close releases the reference, if it was not released before.
func (s *share) close() {
	s.mu.Lock()
	m := s.m
	s.m = nil
	s.mu.Unlock()
	if m != nil {
		m.Free()
	}
}
