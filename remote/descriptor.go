package remote

import (
	"time"

	"github.com/dlx-go/dlx/core"
)

const (
	descriptorMagic = "DLXO"
	descriptorSize  = 40  // bytes before the address
	maxAddress      = 255 // bytes of an address
	flagWritable    = 1
	// MaxDescriptor is the largest number of bytes of a descriptor.
	MaxDescriptor = descriptorSize + maxAddress + metaSize + 8*core.MaxRank
)

// Description is what a descriptor says of an offered tensor. It is what the sender of the descriptor claims: Fetch and Put
// find out whether it is so.
type Description struct {
	DType    core.DType `json:"dtype"`
	Shape    []int64    `json:"shape"`
	Padded   bool       `json:"padded,omitempty"`   // of numbers of fewer than 8 bits, each takes a byte
	Writable bool       `json:"writable,omitempty"` // Put may overwrite the elements
	Address  string     `json:"address,omitempty"`  // of the listener; "" for an offer of a connection
	Expires  time.Time  `json:"expires,omitzero"`   // by the clock of the machine that offers; zero if the lease has no end
}

// description is a Description with the secret.
type description struct {
	Description
	key [keySize]byte
}

func (d *description) meta() meta {
	m := meta{dtype: d.DType, shape: d.Shape}
	if d.Padded {
		m.flags = core.FlagSubBytePadded
	}
	return m
}

func appendDescription(b []byte, d *description) []byte {
	b = append(b, descriptorMagic...)
	b = le.AppendUint16(b, wireVersion)
	var flags uint16
	if d.Writable {
		flags |= flagWritable
	}
	b = le.AppendUint16(b, flags)
	b = append(b, d.key[:]...)
	var expires uint64
	if !d.Expires.IsZero() {
		expires = uint64(d.Expires.UnixMilli())
	}
	b = le.AppendUint64(b, expires)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, uint32(len(d.Address)))
	b = append(b, d.Address...)
	m := d.meta()
	return appendMeta(b, &m)
}

// Describe reads a descriptor. It returns core.ErrInvalid for bytes that are no descriptor, and core.ErrVersion for one of
// another version.
func Describe(descriptor []byte) (Description, error) {
	d, _, err := readDescription(descriptor)
	return d.Description, err
}

// readDescription also returns the number of bytes of the elements.
func readDescription(b []byte) (d description, bytes int64, err error) {
	wrong := func(format string, args ...any) (description, int64, error) {
		return description{}, 0, invalid("descriptor", format, args...)
	}
	if len(b) < descriptorSize || len(b) > MaxDescriptor || string(b[:4]) != descriptorMagic {
		return wrong("%d bytes are no descriptor of an offer: it begins with %q and has %d to %d bytes", len(b), descriptorMagic, descriptorSize, MaxDescriptor)
	}
	if v := le.Uint16(b[4:]); v != wireVersion {
		return d, 0, core.Errorf(core.ErrVersion, "remote", "descriptor", "the descriptor has version %d, and this process knows %d: use the same version of dlx on both sides", v, wireVersion)
	}
	flags, expires, n := le.Uint16(b[6:]), le.Uint64(b[24:]), le.Uint32(b[36:])
	switch {
	case flags&^flagWritable != 0 || le.Uint32(b[32:]) != 0:
		return wrong("the descriptor has unknown flags")
	case n > maxAddress || int(n) > len(b)-descriptorSize:
		return wrong("the descriptor has an address of %d bytes", n)
	case expires > 1<<52:
		return wrong("the descriptor expires at %d", expires)
	}
	d.key = [keySize]byte(b[8:24])
	d.Writable, d.Address = flags&flagWritable != 0, string(b[descriptorSize:descriptorSize+n])
	if expires != 0 {
		d.Expires = time.UnixMilli(int64(expires))
	}
	m, bytes, err := readMeta(b[descriptorSize+n:], nil)
	if err != nil {
		return description{}, 0, err
	}
	if m.label != "" || m.flags&core.FlagReadOnly != 0 {
		return wrong("the descriptor has a label, or a flag that descriptors do not have")
	}
	d.DType, d.Shape, d.Padded = m.dtype, m.shape, m.flags&core.FlagSubBytePadded != 0
	return d, bytes, nil
}
