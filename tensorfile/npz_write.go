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
	// zipPadding is the ID of the extra field that aligns a member. Android's zipalign
	// defines it; other readers ignore it as they ignore every unknown field.
	zipPadding        = 0xd935
	zipPaddingMinimum = 6 // its id, its size, the alignment
	// The sizes in bytes of the descriptor that follows the data of a member.
	zipDescriptor   = 16
	zipDescriptor64 = 24
)

// counter is a writer that counts the bytes written to w.
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

// writeNPZ writes an archive. It aligns stored members, so that their elements can be used in
// place.
func writeNPZ(w io.Writer, sources []*source, compress bool, at fault) error {
	count := &counter{w: w}
	archive := zip.NewWriter(count)
	pending := int64(0) // bytes of the last member's descriptor, which is written before the next member
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

// padding returns an extra field for a local header whose name ends at position. The data
// after the field is aligned.
func padding(position int64) []byte {
	size := zipPaddingMinimum + -(position+zipPaddingMinimum)&(npyAlignment-1)
	field := make([]byte, size)
	binary.LittleEndian.PutUint16(field, zipPadding)
	binary.LittleEndian.PutUint16(field[2:], uint16(size-4))
	binary.LittleEndian.PutUint16(field[4:], npyAlignment)
	return field
}
