package tensorfile

import (
	"cmp"
	"hash/crc32"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/memfault"
)

// Info describes a tensor of a file.
type Info struct {
	Name       string     `json:"name"`
	DType      core.DType `json:"dtype,omitzero"`
	Shape      []int64    `json:"shape,omitzero"`
	Strides    []int64    `json:"strides,omitzero"`     // in elements
	Offset     int64      `json:"offset"`               // bytes from the start of the file to the elements, or to the compressed member
	Bytes      int64      `json:"bytes"`                // of the elements
	Compressed bool       `json:"compressed,omitempty"` // File.Tensor inflates it
	InPlace    bool       `json:"in_place"`             // File.Tensor returns the file's memory, not an aligned copy
	// Reason is why File.Tensor cannot return the member of an archive, empty if
	// it can. If it is set, type and shape are not known.
	Reason string `json:"reason,omitempty"`
}

// entry is a tensor of a file: what is told of it, and how to come by it.
type entry struct {
	Info
	err    error   // behind Info.Reason
	member *member // of an archive; nil in other formats
}

// File is an opened file of tensors. It is safe for concurrent use.
type File struct {
	format   Format
	opts     openOptions
	entries  []entry
	index    map[string]int // into entries, by name
	metadata map[string]string
	share    *share
}

// share is a file's own reference to its mapping. It is an object apart from the
// File, so that the garbage collector's net can give it back.
type share struct {
	mu sync.Mutex
	m  *mapping // nil once closed
}

// Open maps a file and reads its headers. The extension names the format; a file
// with another one is taken for what its first bytes are. The tensor of a .npy is
// named as the file without folder and extension.
//
// The caller closes the file; its tensors live on. Open fails with ErrInvalid if
// the file cannot be opened or its header is malformed, ErrLayout if a shape,
// offset or length contradicts the file's size, ErrDType for an element type that
// the format does not know, ErrVersion for a format version, and ErrNotSupported
// for what the format allows but a tensor cannot be. Errors of the system can be
// found too: errors.Is(err, fs.ErrNotExist).
func Open(path string, opts ...OpenOption) (*File, error) {
	m, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	return open(m, path, opts)
}

// Parse is [Open] for a file in memory; name stands for its path. The data stays
// the caller's, who must not change it until the file and its tensors are closed:
// tensors are views of it.
func Parse(data []byte, name string, opts ...OpenOption) (*File, error) {
	return open(newMapping(data, nil), name, opts)
}

// open takes over m, on failure too.
func open(m *mapping, name string, opts []OpenOption) (*File, error) {
	f := &File{opts: newOpenOptions(opts), share: &share{m: m}, index: make(map[string]int)}
	var err error
	if gone := memfault.Guard(memfault.Within(m.data), func() { err = f.read(m.data, name) }); gone != nil {
		err = fault{format: cmp.Or(f.format, "tensorfile"), call: "Open"}.errorf(because(core.ErrInvalid, gone), "reading the headers failed")
	}
	if err != nil {
		m.Free()
		return nil, err
	}
	runtime.AddCleanup(f, (*share).close, f.share)
	return f, nil
}

// read fills f from the headers.
func (f *File) read(data []byte, name string) (err error) {
	if f.format, err = detect(name, data); err != nil {
		return err
	}
	at := fault{format: f.format, call: "Open"}
	switch f.format {
	case NPY:
		base := filepath.Base(name)
		f.entries, err = readNPY(data, strings.TrimSuffix(base, filepath.Ext(base)), at)
	case NPZ:
		f.entries, err = readNPZ(data, at)
	case Safetensors:
		f.entries, f.metadata, err = readSafetensors(data, at)
	}
	if err != nil {
		return err
	}
	for i := range f.entries {
		e := &f.entries[i]
		if _, taken := f.index[e.Name]; taken {
			return at.errorf(core.ErrInvalid, "tensor %s is there twice", quote(e.Name))
		}
		f.index[e.Name] = i
		e.InPlace = e.err == nil && !e.Compressed && (f.opts.unaligned || aligned(e.DType, e.bytes(data)))
	}
	return nil
}

// bytes are those of the elements, in the bytes of the file. The formats' readers
// have checked that they are there.
func (e *entry) bytes(file []byte) []byte { return file[e.Offset:][:e.Bytes:e.Bytes] }

// aligned reports whether elements of a type may be accessed where they lie. A
// complex number is aligned as its parts are.
func aligned(t core.DType, data []byte) bool {
	bits := t.Bits
	if t.Code == core.CodeComplex {
		bits /= 2
	}
	return bits <= 8 || address(data)%uintptr(bits/8) == 0
}

// Format is the file's format.
func (f *File) Format() Format { return f.format }

// Tensors lists what is in the file, in the order of its place there.
func (f *File) Tensors() []Info {
	infos := make([]Info, len(f.entries))
	for i, e := range f.entries {
		infos[i] = e.Info
		infos[i].Shape, infos[i].Strides = slices.Clone(e.Shape), slices.Clone(e.Strides)
	}
	return infos
}

// Metadata returns a copy of the free text that a .safetensors carries; nil if there is none.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Tensor returns a tensor by its name: on the host, read-only, of no opened
// device. The caller closes it; it keeps the mapping alive, and may outlive the
// file. Each call returns another one, and inflates a compressed one anew.
//
// The memory of a tensor that lies in place ([Info]) is the whole file, and the
// tensor's offset leads to its elements. Where the file is mapped, that memory
// starts on a page, as a [core.HostMapper] wants it.
//
// It fails with ErrInvalid if there is no such tensor, the data of a member of an archive
// is damaged ([VerifyChecksums] tells where that is found) or the file was truncated, ErrClosed, ErrOutOfMemory if it would inflate to more than
// [InflateLimit], and for an [Info] with a Reason with that.
func (f *File) Tensor(name string) (*core.Tensor, error) {
	at := fault{format: f.format, call: "Tensor"}
	i, ok := f.index[name]
	if !ok {
		return nil, at.errorf(core.ErrInvalid, "the file has no tensor %s", quote(name))
	}
	e := &f.entries[i]
	if e.err != nil {
		return nil, e.err
	}
	m := f.share.retain()
	if m == nil {
		return nil, at.errorf(core.ErrClosed, "the file was closed")
	}
	offset := e.Offset
	if e.InPlace && f.opts.checksums {
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
		m, offset = newMapping(data, nil), 0
	}
	t, err := core.Wrap(
		core.Memory{ID: core.CPU, Handle: address(m.data), Size: int64(len(m.data)), Owner: m},
		core.Spec{DType: e.DType, Shape: e.Shape, Strides: e.Strides, Offset: offset, Flags: core.FlagReadOnly},
	)
	if err != nil {
		m.Free()
		return nil, err
	}
	return t, nil
}

// load returns a copy of the elements of e.
func (f *File) load(e *entry, file []byte, at fault) (data []byte, err error) {
	gone := memfault.Guard(memfault.Within(file), func() {
		if e.Compressed {
			data, err = e.member.inflate(e.Bytes, f.opts.inflateLimit, at)
			return
		}
		data = allocate(int(e.Bytes))
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

// checkSum compares elements, which are those of a stored member or a copy of them, with
// the checksum in the directory of the archive. Other formats have none. As archive/zip
// does, it takes 0 for a checksum that was not recorded.
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

// unreadable is the error for elements in a mapped file that was truncated.
func (f fault) unreadable(gone error) error {
	return f.errorf(because(core.ErrInvalid, gone), "its elements cannot be read")
}

// Close gives up the file. Its tensors stay valid until they are closed. It
// never fails; the error makes File an io.Closer. A second Close does nothing.
func (f *File) Close() error {
	f.share.close()
	return nil
}

// retain returns the mapping with a reference for the caller, nil once closed.
func (s *share) retain() *mapping {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m != nil {
		s.m.retain()
	}
	return s.m
}

// close gives the reference back, once.
func (s *share) close() {
	s.mu.Lock()
	m := s.m
	s.m = nil
	s.mu.Unlock()
	if m != nil {
		m.Free()
	}
}
