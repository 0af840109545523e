package tensorfile

import (
	"archive/zip"
	"encoding/binary"
	"io"
	"math"

	"github.com/dlx-go/dlx/core"
)

const (
	zipLocalHeader = 30 // bytes, without the name and the extra fields
	// zipPadding is the extra field that pads a member to an alignment: the one of
	// Android's zipalign, which readers ignore as they do all they do not know.
	zipPadding        = 0xd935
	zipPaddingMinimum = 6 // its id, its size, the alignment
	// What follows the data of a member: checksum and sizes, wider in ZIP64.
	zipDescriptor   = 16
	zipDescriptor64 = 24
)

// counter knows how many bytes it let pass.
type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// writeNPZ writes an archive. Stored members are aligned, so that the elements of
// each can be used in place.
func writeNPZ(w io.Writer, sources []*source, compress bool, at fault) error {
	count := &counter{w: w}
	archive := zip.NewWriter(count)
	pending := int64(0) // bytes of the descriptor that the archive writes before its next member
	for _, s := range sources {
		at := at.in("tensor", s.name)
		if err := checkName(NPZ, s.name, at); err != nil {
			return err
		}
		h := &zip.FileHeader{Name: s.name + ".npy", Method: zip.Deflate}
		err := archive.Flush()
		if !compress {
			h.Method = zip.Store
			h.Extra = padding(count.n + pending + zipLocalHeader + int64(len(h.Name)))
		}
		var member counter
		if err == nil {
			member.w, err = archive.CreateHeader(h)
		}
		if err != nil {
			return at.errorf(because(core.ErrInvalid, err), "writing failed")
		}
		if err := s.writeNPY(&member, at); err != nil {
			return err
		}
		if pending = zipDescriptor; member.n >= math.MaxUint32 {
			pending = zipDescriptor64
		}
	}
	if err := archive.Close(); err != nil {
		return at.errorf(because(core.ErrInvalid, err), "writing the directory failed")
	}
	return nil
}

// padding is the extra field after which a position is aligned.
func padding(position int64) []byte {
	size := zipPaddingMinimum + -(position+zipPaddingMinimum)&(npyAlignment-1)
	field := make([]byte, size)
	binary.LittleEndian.PutUint16(field, zipPadding)
	binary.LittleEndian.PutUint16(field[2:], uint16(size-4))
	binary.LittleEndian.PutUint16(field[4:], npyAlignment)
	return field
}
