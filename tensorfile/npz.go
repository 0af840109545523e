package tensorfile

import (
	"archive/zip"
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// methodNames are the names of compression methods that are not read (APPNOTE.TXT, 4.4.5).
var methodNames = map[uint16]string{9: " (Deflate64)", 12: " (bzip2)", 14: " (LZMA)", 93: " (zstd)", 95: " (xz)"}

// deflateRatio is the largest compression ratio of DEFLATE: 258 bytes in two bits.
const deflateRatio = 1032

// member is a member of an archive.
type member struct {
	file   *zip.File
	header int64 // uncompressed bytes before the elements
}

// readNPZ reads the directory of an archive and the header of each member. voids is VoidAs of OpenOptions.
func readNPZ(data []byte, voids []core.DType, at fault) ([]entry, error) {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, at.errorf(because(core.ErrInvalid, err), "central directory: the file is not a ZIP archive, or not complete")
	}
	if err := checkDisjoint(archive.File, int64(len(data)), at); err != nil {
		return nil, err
	}
	if err := checkDirectory(data, archive.File, at); err != nil {
		return nil, err
	}
	entries := make([]entry, 0, len(archive.File))
	for _, file := range archive.File {
		e, err := readMember(file, data, voids, at.in("member", file.Name))
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// checkDisjoint checks that no two members share bytes and that all lie in the file. In a
// decompression bomb, many members share bytes.
func checkDisjoint(files []*zip.File, size int64, at fault) error {
	type extent struct {
		begin, end int64
		name       string
	}
	extents := make([]extent, 0, len(files))
	for _, f := range files {
		at := at.in("member", f.Name)
		begin, err := f.DataOffset()
		if err != nil {
			return at.errorf(because(core.ErrInvalid, err), "local header: it is damaged or lies outside of the file")
		}
		if begin > size || f.CompressedSize64 > uint64(size-begin) {
			return at.errorf(core.ErrLayout, "compressed size is %d, but the file has %d bytes from byte %d on", f.CompressedSize64, max(size-begin, 0), begin)
		}
		extents = append(extents, extent{begin, begin + int64(f.CompressedSize64), f.Name})
	}
	slices.SortFunc(extents, func(a, b extent) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end)) })
	for i := 1; i < len(extents); i++ {
		if before, this := extents[i-1], extents[i]; before.end > this.begin {
			return at.in("member", this.name).errorf(core.ErrLayout, "its data from byte %d on lies inside that of member %s", this.begin, quote(before.name))
		}
	}
	return nil
}

// readMember reads the header of a member. A valid member that cannot be a tensor becomes an
// entry with the reason.
func readMember(file *zip.File, data []byte, voids []core.DType, at fault) (entry, error) {
	name, isArray := strings.CutSuffix(file.Name, ".npy")
	offset, err := file.DataOffset()
	if err != nil {
		return entry{}, at.errorf(because(core.ErrInvalid, err), "local header")
	}
	var e entry
	switch {
	case !isArray:
		err = at.errorf(core.ErrNotSupported, "it is not an .npy file")
	case file.Flags&1 != 0:
		err = at.errorf(core.ErrNotSupported, "it is encrypted")
	case file.Method == zip.Store:
		e, err = readStored(file, name, data[offset:][:file.CompressedSize64], voids, at)
	case file.Method == zip.Deflate:
		e, err = readDeflated(file, name, voids, at)
	default:
		err = at.errorf(core.ErrNotSupported, "compression method is %d%s; known are 0, stored, and 8, deflated: write the archive with numpy.savez or numpy.savez_compressed", file.Method, methodNames[file.Method])
	}
	if errors.Is(err, core.ErrNotSupported) {
		return entry{Name: name, more: &more{err: err}}, nil
	}
	e.Offset += offset
	return e, err
}

// readStored returns the entry of a member that is not compressed.
func readStored(file *zip.File, name string, data []byte, voids []core.DType, at fault) (entry, error) {
	if file.UncompressedSize64 != uint64(len(data)) {
		return entry{}, at.errorf(core.ErrLayout, "it is stored, but its sizes are %d and, compressed, %d", file.UncompressedSize64, len(data))
	}
	entries, err := readNPY(data, name, voids, at)
	if err != nil {
		return entry{}, err
	}
	e := entries[0]
	e.more = &more{member: &member{file: file, header: e.Offset}}
	return e, nil
}

// readDeflated returns the entry of a compressed member. It inflates only the header.
func readDeflated(file *zip.File, name string, voids []core.DType, at fault) (entry, error) {
	if file.UncompressedSize64/deflateRatio > file.CompressedSize64 {
		return entry{}, at.errorf(core.ErrLayout, "uncompressed size is %d, but %d bytes cannot inflate to so many", file.UncompressedSize64, file.CompressedSize64)
	}
	r, err := file.Open()
	if err != nil {
		return entry{}, at.errorf(because(core.ErrInvalid, err), "local header")
	}
	defer func() { _ = r.Close() }()
	h, err := readNPYHeader(r, int64(file.UncompressedSize64), voids, at)
	if err != nil {
		return entry{}, err
	}
	e := h.entry(name)
	e.Offset, e.Compressed, e.more = 0, true, &more{member: &member{file: file, header: h.size}}
	return e, nil
}

// inflate inflates the elements, which have size bytes, into new memory and verifies the
// checksum.
func (m *member) inflate(size, limit int64, at fault) ([]byte, error) {
	if limit = min(limit, maxAllocation); size > limit {
		return nil, at.errorf(core.ErrOutOfMemory, "it inflates to %d bytes, the limit is %d: raise InflateLimit", size, limit)
	}
	r, err := m.file.Open()
	if err != nil {
		return nil, at.errorf(because(core.ErrInvalid, err), "local header")
	}
	defer func() { _ = r.Close() }()
	data, err := allocate(int(size))
	if err != nil {
		return nil, at.errorf(err, "it inflates to %d bytes", size)
	}
	_, err = io.CopyN(io.Discard, r, m.header)
	if err == nil {
		_, err = io.ReadFull(r, data)
	}
	if err == nil {
		// archive/zip compares size and checksum with the directory at the end of the data.
		if _, err = io.ReadFull(r, make([]byte, 1)); errors.Is(err, io.EOF) {
			return data, nil
		}
	}
	return nil, at.errorf(because(core.ErrInvalid, err), "its compressed data is damaged")
}
