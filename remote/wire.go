package remote

import (
	"encoding/binary"
	"io"
	"math"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/remote/internal/ucx"
)

// docs/remote.md describes the messages. All numbers are little-endian.
const (
	controlMagic = "DLXR"
	wireVersion  = 1
	controlSize  = 12       // bytes of the header of a control message
	maxControl   = 32 << 10 // bytes of a control message with its header
	usualControl = 1 << 10  // bytes of nearly all control messages
	pieceBytes   = 4 << 20  // bytes of each piece of a tensor but the last
	window       = 4        // pieces of a transfer that are on their way
	maxText      = 512      // bytes of a text for people
	maxLabel     = 1024     // bytes of a label
	tokenSize    = 16       // bytes that each data message begins with
	dataSize     = 32       // bytes of the header of a data message
	metaSize     = 16       // bytes of a tensor before its extents
	helloSize    = 56       // bytes of a hello before the address
	goodbyeSize  = 20       // bytes of a goodbye before the text
	maxBytes     = 1 << 50  // of a tensor, so that its pieces can be numbered
)

var le = binary.LittleEndian

// control is the kind of a control message.
type control uint16

const (
	controlProof    control = iota + 1 // that the sender knows the token
	controlHello                       // what the sender permits, and where UCX reaches it
	controlGoodbye                     // the connection ends
	controlPing                        // a sign of life
	controlSync                        // asks to be told when tensors were received
	controlFetch                       // asks for elements of an offer
	controlPut                         // asks to overwrite elements of an offer
	controlAccepted                    // the elements of a Put may come
	controlDone                        // the elements of a Put are there
	controlRefused                     // a request was refused, or has failed
	controlList                        // asks which offers have names
	controlListed                      // some of them
	controlSum                         // asks for the checksum of elements of an offer
	controlSummed                      // the checksum
)

// featureList is the feature of hellos that answers controlList and controlSum.
const featureList = 1

// appendControl begins a control message. finishControl completes it.
func appendControl(b []byte, k control) []byte {
	b = append(b, controlMagic...)
	b = le.AppendUint16(b, wireVersion)
	b = le.AppendUint16(b, uint16(k))
	return le.AppendUint32(b, 0)
}

func finishControl(b []byte) []byte {
	le.PutUint32(b[8:], uint32(len(b)))
	return b
}

// readControl reads a control message into b, or into new memory if it has more bytes than b, and returns its payload. Most messages
// are short, and each connection keeps a b.
func readControl(r io.Reader, b []byte) (control, []byte, error) {
	if _, err := io.ReadFull(r, b[:controlSize]); err != nil {
		return 0, nil, err
	}
	if string(b[:4]) != controlMagic {
		return 0, nil, violation("a control message begins with %q instead of %q: the peer is no dlx, or only one side uses TLS", b[:4], controlMagic)
	}
	if v := le.Uint16(b[4:]); v != wireVersion {
		return 0, nil, core.Errorf(core.ErrVersion, "remote", "message",
			"the peer uses version %d of the messages, and this process version %d: use the same version of dlx on both sides", v, wireVersion)
	}
	k, n := control(le.Uint16(b[6:])), le.Uint32(b[8:])
	if n < controlSize || n > maxControl {
		return 0, nil, violation("a control message has %d bytes: %d to %d are possible", n, controlSize, maxControl)
	}
	if int(n) > len(b) {
		b = append(make([]byte, 0, n), b[:controlSize]...)[:n]
	}
	if _, err := io.ReadFull(r, b[controlSize:n]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return k, b[controlSize:n], nil
}

// hello is what each side says of itself.
type hello struct {
	features uint64 // unknown ones are ignored
	limits   Limits
	alive    time.Duration
	token    [tokenSize]byte // that data messages to this side begin with
	header   int             // bytes that a header of UCX can have
	address  []byte          // of UCX
}

func appendHello(b []byte, h *hello) []byte {
	b = le.AppendUint64(b, h.features)
	b = le.AppendUint32(b, uint32(h.limits.Tensors))
	b = le.AppendUint32(b, uint32(h.limits.Requests))
	b = le.AppendUint64(b, uint64(h.limits.Bytes))
	b = le.AppendUint32(b, uint32(h.alive.Milliseconds()))
	b = le.AppendUint32(b, uint32(h.header))
	b = append(b, h.token[:]...)
	b = le.AppendUint32(b, uint32(len(h.address)))
	b = le.AppendUint32(b, 0)
	return append(b, h.address...)
}

// readHello reads the payload of a hello. It copies the address.
func readHello(b []byte) (h hello, err error) {
	if len(b) < helloSize {
		return h, violation("a hello has %d bytes, and needs %d", len(b), helloSize)
	}
	h.features = le.Uint64(b)
	h.limits = Limits{
		Tensors: int(min(le.Uint32(b[8:]), maxTensors)), Requests: int(min(le.Uint32(b[12:]), maxRequests)),
		Bytes: int64(min(le.Uint64(b[16:]), maxBytes)),
	}
	h.alive, h.header = time.Duration(le.Uint32(b[24:]))*time.Millisecond, int(min(le.Uint32(b[28:]), ucx.MaxHeader))
	h.token = [tokenSize]byte(b[32:48])
	n := le.Uint32(b[48:])
	switch {
	case h.limits.Tensors == 0 || h.limits.Bytes == 0:
		return h, violation("a hello permits %d tensors of %d bytes: none of them may be 0", h.limits.Tensors, h.limits.Bytes)
	case h.alive < minAlive || h.alive > maxAlive:
		return h, violation("a hello asks for a sign of life each %v: %v to %v are possible", h.alive, minAlive, maxAlive)
	case n == 0 || n > ucx.MaxAddress || int(n) != len(b)-helloSize:
		return h, violation("a hello of %d bytes has an address of %d bytes: 1 to %d are possible", len(b), n, ucx.MaxAddress)
	}
	h.address = append([]byte(nil), b[helloSize:]...)
	return h, nil
}

// reason is why a connection ends.
type reason uint16

const (
	reasonClosed  reason = iota // the program closed the connection
	reasonInvalid               // a message broke the rules
	reasonVersion               // the peer uses another version
	reasonRefused               // the peer has not proved who it is, or there is no room for it
	reasonStalled               // a request of the peer has stalled
	reasonSilent                // the peer showed no sign of life
	reasonLost                  // UCX or the control connection has failed
)

// goodbye is what a side says when it ends the connection.
type goodbye struct {
	reason   reason
	received uint64 // tensors of the peer that this side has received; UCX may not tell any more
	sent     uint64 // tensors that this side has begun to send
	text     string // for people
}

func appendGoodbye(b []byte, g goodbye) []byte {
	b = le.AppendUint16(b, uint16(g.reason))
	b = le.AppendUint16(b, 0)
	b = le.AppendUint64(b, g.received)
	b = le.AppendUint64(b, g.sent)
	return append(b, g.text[:min(len(g.text), maxText)]...)
}

func readGoodbye(b []byte) (goodbye, error) {
	if len(b) < goodbyeSize || len(b) > goodbyeSize+maxText {
		return goodbye{}, violation("a goodbye has %d bytes: %d to %d are possible", len(b), goodbyeSize, goodbyeSize+maxText)
	}
	return goodbye{reason(le.Uint16(b)), le.Uint64(b[4:]), le.Uint64(b[12:]), string(b[goodbyeSize:])}, nil
}

// kind is the kind of a data message.
type kind uint16

const (
	kindTensor  kind = iota + 1 // a tensor, with its first piece
	kindPiece                   // another piece of it
	kindCredit                  // how many tensors were received
	kindAbandon                 // the tensor, or with index 1 the Put, will not be complete
	kindFetched                 // a piece of what was asked for
	kindPut                     // a piece of what was accepted
)

// data is the header of a data message.
type data struct {
	kind  kind
	index uint32 // of the piece
	id    uint64 // of the transfer, or the number of tensors that were received
}

func appendData(b []byte, token *[tokenSize]byte, d data) []byte {
	b = append(b, token[:]...)
	b = le.AppendUint16(b, uint16(d.kind))
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, d.index)
	return le.AppendUint64(b, d.id)
}

// readData reads the header of a data message, whose token package ucx has compared, and returns what follows.
func readData(b []byte) (data, []byte) {
	return data{kind: kind(le.Uint16(b[16:])), index: le.Uint32(b[20:]), id: le.Uint64(b[24:])}, b[dataSize:]
}

// meta describes a tensor whose elements come in row-major order.
type meta struct {
	dtype core.DType
	flags core.Flags
	shape []int64
	label string
}

// keptFlags are the flags that a tensor keeps.
const keptFlags = core.FlagReadOnly | core.FlagSubBytePadded

func appendMeta(b []byte, m *meta) []byte {
	b = append(b, byte(m.dtype.Code), m.dtype.Bits)
	b = le.AppendUint16(b, m.dtype.Lanes)
	b = le.AppendUint32(b, uint32(m.flags&keptFlags))
	b = le.AppendUint16(b, uint16(len(m.shape)))
	b = le.AppendUint16(b, uint16(len(m.label)))
	b = le.AppendUint32(b, 0)
	for _, x := range m.shape {
		b = le.AppendUint64(b, uint64(x))
	}
	return append(b, m.label...)
}

// readMeta reads what appendMeta has written, and returns the number of bytes of the elements. The shape is appended to dims,
// if that has room, and otherwise in new memory.
func readMeta(b []byte, dims []int64) (m meta, bytes int64, err error) {
	if len(b) < metaSize {
		return m, 0, violation("a tensor is described by %d bytes, and %d are needed", len(b), metaSize)
	}
	m.dtype = core.DType{Code: typecode.Code(b[0]), Bits: b[1], Lanes: le.Uint16(b[2:])}
	m.flags = core.Flags(le.Uint32(b[4:]))
	rank, label := int(le.Uint16(b[8:])), int(le.Uint16(b[10:]))
	switch {
	case rank > core.MaxRank || label > maxLabel || len(b) != metaSize+8*rank+label:
		return m, 0, violation("%d bytes describe a tensor with %d axes and a label of %d bytes: at most %d and %d are possible", len(b), rank, label, core.MaxRank, maxLabel)
	case m.flags&^keptFlags != 0:
		return m, 0, violation("a tensor has the unknown flags %#x", uint64(m.flags&^keptFlags))
	}
	m.shape = dims
	if m.shape == nil {
		m.shape = make([]int64, 0, rank)
	}
	for i := range rank {
		m.shape = append(m.shape, int64(le.Uint64(b[metaSize+8*i:])))
	}
	m.label = string(b[metaSize+8*rank:])
	if bytes, err = m.bytes(); err != nil {
		return m, 0, violation("%v", err)
	}
	return m, bytes, nil
}

// bytes returns the number of bytes of the elements.
func (m *meta) bytes() (int64, error) {
	elements := int64(1)
	for _, x := range m.shape {
		if elements *= x; x < 0 || x > math.MaxInt32 || elements > math.MaxInt32 { // rare; the layout has the rules
			l, err := core.NewLayout(m.shape...)
			if err != nil {
				return 0, err
			}
			elements = l.NumElements()
			break
		}
	}
	n, err := m.dtype.Size(elements, m.flags&core.FlagSubBytePadded != 0)
	if err == nil && n > maxBytes {
		err = core.Errorf(core.ErrLayout, "remote", "message", "a tensor has %d bytes", n)
	}
	return n, err
}

// pieces returns the number of pieces of so many bytes. A tensor without elements has one piece, of 0 bytes.
func pieces(bytes int64) int64 { return max(1, (bytes+pieceBytes-1)/pieceBytes) }

// pieceAt returns the place and the size of a piece.
func pieceAt(bytes, i int64) (offset, size int64) {
	offset = i * pieceBytes
	return offset, min(pieceBytes, bytes-offset)
}
