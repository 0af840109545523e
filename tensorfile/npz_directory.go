package tensorfile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"math"

	"github.com/dlx-go/dlx/core"
)

// The sizes in bytes and the signatures of the records at the end of an archive (APPNOTE.TXT,
// 4.3.12 to 4.3.16).
const (
	zipDirectoryHeader = 46 // without the name, the extra fields and the comment
	zipEnd             = 22 // without the comment
	zipEnd64           = 56
	zipLocator64       = 20

	zipLocalMark     = "PK\x03\x04"
	zipDirectoryMark = "PK\x01\x02"
	zipEndMark       = "PK\x05\x06"
	zipEnd64Mark     = "PK\x06\x06"
	zipLocator64Mark = "PK\x06\x07"
)

// directory is the content of the end record, which describes the central directory.
type directory struct {
	end     int64 // where it ends: where the end record begins
	size    uint64
	records uint64
	offset  uint64 // of its start, in an archive with nothing before it
}

// checkDirectory checks that archive/zip has found all members of the archive under their
// names. That package begins where the end record says that the directory is, and stops at
// the first bytes that are not a header. If an archive is truncated or its end record is
// damaged, it may therefore find only some members, or none.
func checkDirectory(data []byte, files []*zip.File, at fault) error {
	d, ok := findDirectory(data)
	if !ok {
		return at.errorf(core.ErrInvalid, "end record: there is none, or it is not complete")
	}
	var total uint64
	for _, f := range files {
		total += zipDirectoryHeader + uint64(len(f.Name)+len(f.Extra)+len(f.Comment))
	}
	start := d.end - int64(total)
	switch {
	case d.records != uint64(len(files)) && d.records != uint64(len(files)&0xffff): // the record has 16 bits for the number
		return at.errorf(core.ErrInvalid, "end record: it counts %d members, the central directory has %d", d.records, len(files))
	case d.size != total || start < 0:
		return at.errorf(core.ErrInvalid, "end record: it says that the central directory has %d bytes, but its %d members take %d", d.size, len(files), total)
	case len(files) == 0 && d.end != 0:
		return at.errorf(core.ErrInvalid, "end record: it ends an empty archive, but %d bytes are before it", d.end)
	}
	for _, f := range files {
		header := data[start:]
		if !bytes.HasPrefix(header, []byte(zipDirectoryMark)) {
			return at.errorf(core.ErrInvalid, "central directory: it does not end where the end record begins")
		}
		if err := checkLocalName(data, header, f, d, at); err != nil {
			return err
		}
		start += zipDirectoryHeader + int64(len(f.Name)+len(f.Extra)+len(f.Comment))
	}
	return nil
}

// checkLocalName checks that the local header of a member has the same name as its header in
// the directory.
func checkLocalName(data, header []byte, f *zip.File, d directory, at fault) error {
	offset := uint64(binary.LittleEndian.Uint32(header[42:]))
	if offset == math.MaxUint32 || d.offset > uint64(d.end)-d.size {
		return nil // the offset is in a field of ZIP64; the header of the elements is checked nevertheless
	}
	local := uint64(d.end) - d.size - d.offset + offset
	if local+zipLocalHeader > uint64(len(data)) || !bytes.HasPrefix(data[local:], []byte(zipLocalMark)) {
		return at.in("member", f.Name).errorf(core.ErrInvalid, "local header: it is not where the central directory says")
	}
	length := binary.LittleEndian.Uint16(data[local+26:])
	if name := data[local+zipLocalHeader:]; int(length) != len(f.Name) || !bytes.HasPrefix(name, []byte(f.Name)) {
		return at.in("member", f.Name).errorf(core.ErrInvalid, "local header: it has another name than the central directory")
	}
	return nil
}

// findDirectory returns the content of the last end record whose comment fits into the file.
func findDirectory(data []byte) (directory, bool) {
	for i := len(data) - zipEnd; i >= max(0, len(data)-zipEnd-math.MaxUint16); i-- {
		end := data[i:]
		if !bytes.HasPrefix(end, []byte(zipEndMark)) || int(binary.LittleEndian.Uint16(end[20:])) > len(end)-zipEnd {
			continue
		}
		d := directory{
			end:     int64(i),
			records: uint64(binary.LittleEndian.Uint16(end[10:])),
			size:    uint64(binary.LittleEndian.Uint32(end[12:])),
			offset:  uint64(binary.LittleEndian.Uint32(end[16:])),
		}
		d.widen(data)
		return d, true
	}
	return directory{}, false
}

// widen reads the values that did not fit into the end record from the end record of ZIP64,
// if there is one.
func (d *directory) widen(data []byte) {
	locator := d.end - zipLocator64
	if locator < 0 || !bytes.HasPrefix(data[locator:], []byte(zipLocator64Mark)) {
		return
	}
	at := locator - zipEnd64
	if at < 0 || !bytes.HasPrefix(data[at:], []byte(zipEnd64Mark)) { // the record may be longer than the minimum
		at = int64(min(binary.LittleEndian.Uint64(data[locator+8:]), uint64(max(at, 0))))
		if !bytes.HasPrefix(data[at:], []byte(zipEnd64Mark)) {
			return
		}
	}
	end := data[at:]
	d.end = at
	if d.records == math.MaxUint16 {
		d.records = binary.LittleEndian.Uint64(end[32:])
	}
	if d.size == math.MaxUint32 {
		d.size = binary.LittleEndian.Uint64(end[40:])
	}
	if d.offset == math.MaxUint32 {
		d.offset = binary.LittleEndian.Uint64(end[48:])
	}
}
