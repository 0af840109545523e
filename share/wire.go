package share

import (
	"encoding/binary"
	"math"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
)

// docs/share.md describes the messages. All numbers are little-endian.
const (
	wireMagic   = "DLXS"
	wireVersion = 1
	headerSize  = 24
	maxMessage  = 8192 // bytes of a message with its header
	maxFDs      = 1    // descriptors beside a message
)

// kind is the kind of a message.
type kind uint16

const (
	kindHello    kind = iota + 1
	kindGoodbye       // the connection ends
	kindMemory        // memory that tensors lie in
	kindTensor        // a tensor
	kindReleased      // tensors that the receiver has released
	kindForget        // the sender has freed a memory
	kindOrder         // a semaphore or an event that orders work
)

// header is the beginning of a message.
type header struct {
	kind     kind
	fds      int
	sequence uint64
}

// appendHeader begins a message. finish completes it.
func appendHeader(b []byte, h header) []byte {
	b = append(b, wireMagic...)
	b = binary.LittleEndian.AppendUint16(b, wireVersion)
	b = binary.LittleEndian.AppendUint16(b, uint16(h.kind))
	b = binary.LittleEndian.AppendUint32(b, 0) // finish writes the length
	b = binary.LittleEndian.AppendUint16(b, uint16(h.fds))
	b = binary.LittleEndian.AppendUint16(b, 0)
	return binary.LittleEndian.AppendUint64(b, h.sequence)
}

// finish writes the length and the sequence number of a complete message.
func finish(b []byte, sequence uint64) {
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
	binary.LittleEndian.PutUint64(b[16:], sequence)
}

// violation is the error of a message that breaks the rules of the format.
func violation(format string, args ...any) error {
	return core.Errorf(core.ErrInvalid, "share", "message", format, args...)
}

// readHeader checks a message of which fds descriptors came beside, and returns its payload.
func readHeader(b []byte, fds int) (header, []byte, error) {
	if len(b) < 8 || string(b[:4]) != wireMagic {
		return header{}, nil, violation("a message of %d bytes does not begin with %q and a version", len(b), wireMagic)
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != wireVersion {
		return header{}, nil, core.Errorf(core.ErrVersion, "share", "message",
			"the peer uses version %d of the format, and this process version %d: use the same version of dlx on both sides", v, wireVersion)
	}
	h := header{kind: kind(binary.LittleEndian.Uint16(b[6:]))}
	if len(b) < headerSize {
		return h, nil, violation("a message has %d bytes, and a header %d", len(b), headerSize)
	}
	h.fds, h.sequence = int(binary.LittleEndian.Uint16(b[12:])), binary.LittleEndian.Uint64(b[16:])
	switch length := binary.LittleEndian.Uint32(b[8:]); {
	case int64(length) != int64(len(b)):
		return h, nil, violation("a message has %d bytes, and its header says %d", len(b), length)
	case h.fds != fds:
		return h, nil, violation("%d descriptors came with a message, and its header says %d", fds, h.fds)
	case binary.LittleEndian.Uint16(b[14:]) != 0:
		return h, nil, violation("the reserved bytes of a header are not 0")
	case fds != 0 && h.kind != kindMemory && h.kind != kindOrder && h.kind != kindRing && h.kind != kindSubscribe:
		return h, nil, violation("a message of kind %d has a descriptor", h.kind)
	}
	return h, b[headerSize:], nil
}

const (
	helloSize  = 32
	deviceSize = 80
	maxDevices = 64
	pciSize    = 16

	deviceIPCEvents = 1 // flag of a device

	featureOrder = 1 // bit of the features: semaphores of kindOrder, and results
)

// hello is what each side says first.
type hello struct {
	features uint64
	limits   Limits
	devices  []PeerDevice
}

func appendHello(b []byte, h hello) []byte {
	b = binary.LittleEndian.AppendUint64(b, h.features)
	b = binary.LittleEndian.AppendUint32(b, uint32(h.limits.Tensors))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.limits.Memories))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.limits.Bytes))
	b = binary.LittleEndian.AppendUint16(b, deviceSize)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(h.devices)))
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, d := range h.devices {
		b = binary.LittleEndian.AppendUint32(b, uint32(d.ID.Type))
		b = binary.LittleEndian.AppendUint32(b, uint32(d.ID.Index))
		b = append(b, d.UUID[:]...)
		b = append(b, d.DriverUUID[:]...)
		for _, types := range [][]core.HandleType{d.Exports, d.Imports, d.SemaphoreExports, d.SemaphoreImports} {
			b = binary.LittleEndian.AppendUint32(b, setOf(types))
		}
		var flags uint32
		if d.IPCEvents {
			flags |= deviceIPCEvents
		}
		b = binary.LittleEndian.AppendUint32(b, flags)
		b = binary.LittleEndian.AppendUint32(b, 0)
		var pci [pciSize]byte
		copy(pci[:], d.PCI)
		b = append(b, pci[:]...)
	}
	return b
}

// readHello reads the payload of a hello. A later version may add bytes after those that are
// read here, to the message and to each device.
func readHello(b []byte) (hello, error) {
	if len(b) < helloSize {
		return hello{}, violation("a hello has %d bytes, and needs %d", len(b), helloSize)
	}
	h := hello{features: binary.LittleEndian.Uint64(b)}
	tensors, memories, bytes := binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint64(b[16:])
	size, n := int(binary.LittleEndian.Uint16(b[24:])), int(binary.LittleEndian.Uint16(b[26:]))
	switch {
	case tensors == 0 || memories == 0 || bytes == 0:
		return hello{}, violation("a hello permits %d tensors, %d memories and %d bytes: none of them may be 0", tensors, memories, bytes)
	case size < deviceSize || n > maxDevices || len(b)-helloSize < n*size:
		return hello{}, violation("a hello of %d bytes has %d devices of %d bytes: at most %d of at least %d bytes are possible", len(b), n, size, maxDevices, deviceSize)
	}
	h.limits = Limits{Tensors: int(min(tensors, math.MaxInt32)), Memories: int(min(memories, math.MaxInt32)), Bytes: int64(min(bytes, math.MaxInt64))}
	for i := range n {
		d := b[helloSize+i*size:]
		at := func(i int) uint32 { return binary.LittleEndian.Uint32(d[i:]) }
		p := PeerDevice{
			ID:   core.DeviceID{Type: core.DeviceType(at(0)), Index: int32(at(4))},
			UUID: core.UUID(d[8:24]), DriverUUID: core.UUID(d[24:40]),
			Exports: listOf(at(40)), Imports: listOf(at(44)),
			SemaphoreExports: listOf(at(48)), SemaphoreImports: listOf(at(52)),
			IPCEvents: at(56)&deviceIPCEvents != 0,
		}
		for _, c := range d[64:deviceSize] {
			if c == 0 {
				break
			}
			if c < ' ' || c > '~' {
				return hello{}, violation("the PCI address of device %d has the byte %#x", i, c)
			}
			p.PCI += string(rune(c))
		}
		h.devices = append(h.devices, p)
	}
	return h, nil
}

// setOf returns a set of handle types as bits.
func setOf(types []core.HandleType) (set uint32) {
	for _, t := range types {
		if t < 32 {
			set |= 1 << t
		}
	}
	return set
}

// listOf is the inverse of setOf. Types that this version of dlx does not know stay in the list.
func listOf(set uint32) []core.HandleType {
	types := []core.HandleType{} // not nil, for JSON
	for t := range core.HandleType(32) {
		if set&(1<<t) != 0 {
			types = append(types, t)
		}
	}
	return types
}

// reason is why a connection ends.
type reason uint16

const (
	reasonClosed  reason = iota // the program closed the connection
	reasonInvalid               // a message broke the rules
	reasonVersion               // the peer uses another version
	reasonQuota                 // the peer passed more than was permitted
	reasonRefused               // the peer may not connect
)

// maxText bounds the text of a goodbye.
const maxText = 512

func appendGoodbye(b []byte, r reason, text string) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(r))
	b = binary.LittleEndian.AppendUint16(b, 0)
	return append(b, text[:min(len(text), maxText)]...)
}

func readGoodbye(b []byte) (r reason, text string, err error) {
	if len(b) < 4 || len(b) > 4+maxText {
		return 0, "", violation("a goodbye has %d bytes", len(b))
	}
	return reason(binary.LittleEndian.Uint16(b)), string(b[4:]), nil
}

// appendObject writes the payload of a message about memory, a semaphore or an event: its
// number, what it is, and what package core has written about it.
func appendObject(b []byte, id uint32, what objectKind, data []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, id)
	b = binary.LittleEndian.AppendUint32(b, uint32(what))
	return append(b, data...)
}

// objectKind says what an object that orders work is.
type objectKind uint32

const (
	objectMemory objectKind = iota
	objectSemaphore
	objectEvent
	objectResult // how the work of a tensor ended
)

func readObject(b []byte) (id uint32, what objectKind, data []byte, err error) {
	if len(b) < 8 {
		return 0, 0, nil, violation("a message about memory or a semaphore has %d bytes", len(b))
	}
	id, what = binary.LittleEndian.Uint32(b), objectKind(binary.LittleEndian.Uint32(b[4:]))
	if id == 0 {
		return 0, 0, nil, violation("0 is not the number of a memory or a semaphore")
	}
	return id, what, b[8:], nil
}

// resultStatus says how work ended.
type resultStatus uint32

const (
	resultOK resultStatus = iota
	resultFailed
	resultLost   // the device was lost
	resultMemory // of the device was short
)

const (
	resultSize    = 24
	resultMissing = 1 // flag: the semaphore does not reach the value
)

// appendResult writes the payload of a message about the work of a tensor.
func appendResult(b []byte, r result) []byte {
	b = appendObject(b, 0, objectResult, nil)
	b = binary.LittleEndian.AppendUint64(b, r.tensor)
	b = binary.LittleEndian.AppendUint32(b, uint32(r.status))
	var flags uint32
	if r.missing {
		flags |= resultMissing
	}
	b = binary.LittleEndian.AppendUint32(b, flags)
	return append(b, r.text[:min(len(r.text), maxText)]...)
}

// isResult reports whether a message of kindOrder is about the work of a tensor.
func isResult(b []byte) bool {
	return len(b) >= 8 && objectKind(binary.LittleEndian.Uint32(b[4:])) == objectResult
}

func readResult(b []byte) (result, error) {
	if len(b) < resultSize || len(b) > resultSize+maxText {
		return result{}, violation("a message about the work of a tensor has %d bytes", len(b))
	}
	r := result{
		tensor: binary.LittleEndian.Uint64(b[8:]), status: resultStatus(binary.LittleEndian.Uint32(b[16:])),
		text: string(b[resultSize:]),
	}
	id, flags := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[20:])
	if id != 0 || flags&^resultMissing != 0 || r.status == resultOK && r.text != "" {
		return result{}, violation("a message about the work of a tensor has the number %d, the flags %#x, the status %d and the text %q", id, flags, r.status, r.text)
	}
	r.missing = flags&resultMissing != 0
	return r, nil
}

const tensorSize = 48

// sharedFlags are the flags that a tensor keeps.
const sharedFlags = core.FlagReadOnly | core.FlagSubBytePadded

// tensorMessage is a tensor: where it lies, and what must be done before it is read.
type tensorMessage struct {
	id     uint64
	memory uint32 // 0 for a tensor without elements
	spec   core.Spec
	order  objectKind // 0 if the elements are there
	by     uint32     // the semaphore or event
	value  uint64     // of the semaphore
	label  string     // of the program
}

// maxLabel bounds the label of a tensor.
const maxLabel = 1024

// appendTensor writes the payload of a tensor. The shape and the strides are in dims.
func appendTensor(b []byte, m *tensorMessage) []byte {
	b = binary.LittleEndian.AppendUint64(b, m.id)
	b = binary.LittleEndian.AppendUint32(b, m.memory)
	b = append(b, byte(m.spec.DType.Code), m.spec.DType.Bits)
	b = binary.LittleEndian.AppendUint16(b, m.spec.DType.Lanes)
	b = binary.LittleEndian.AppendUint32(b, uint32(m.spec.Flags&sharedFlags))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(m.spec.Shape)))
	b = append(b, byte(m.order), 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(m.spec.Offset))
	b = binary.LittleEndian.AppendUint32(b, m.by)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.label)))
	b = binary.LittleEndian.AppendUint64(b, m.value)
	for _, list := range [][]int64{m.spec.Shape, m.spec.Strides} {
		for _, x := range list {
			b = binary.LittleEndian.AppendUint64(b, uint64(x))
		}
	}
	return append(b, m.label...)
}

// read reads the payload of a tensor. It does not check whether the elements lie within the
// memory. The shape and the strides are in dims, if they fit.
func (m *tensorMessage) read(b []byte, dims []int64) error {
	if len(b) < tensorSize {
		return violation("a tensor has %d bytes, and needs %d", len(b), tensorSize)
	}
	*m = tensorMessage{
		id: binary.LittleEndian.Uint64(b), memory: binary.LittleEndian.Uint32(b[8:]),
		order: objectKind(b[22]), by: binary.LittleEndian.Uint32(b[32:]), value: binary.LittleEndian.Uint64(b[40:]),
		spec: core.Spec{
			DType:  core.DType{Code: typecode.Code(b[12]), Bits: b[13], Lanes: binary.LittleEndian.Uint16(b[14:])},
			Flags:  core.Flags(binary.LittleEndian.Uint32(b[16:])),
			Offset: int64(binary.LittleEndian.Uint64(b[24:])),
		},
	}
	rank, label := int(binary.LittleEndian.Uint16(b[20:])), binary.LittleEndian.Uint32(b[36:])
	switch {
	case rank > core.MaxRank || label > maxLabel || len(b) != tensorSize+16*rank+int(label):
		return violation("a tensor of %d bytes has %d axes, of 16 bytes each, and a label of %d bytes: at most %d and %d are possible", len(b), rank, label, core.MaxRank, maxLabel)
	case m.spec.Flags&^sharedFlags != 0:
		return violation("a tensor has the unknown flags %#x", uint64(m.spec.Flags&^sharedFlags))
	case b[23] != 0:
		return violation("the reserved byte of a tensor is not 0")
	case m.order > objectEvent || (m.order == 0) != (m.by == 0) || m.order != objectSemaphore && m.value != 0:
		return violation("a tensor is ordered by object %d of kind %d with the value %d", m.by, m.order, m.value)
	}
	if 2*rank > len(dims) {
		dims = make([]int64, 2*rank)
	}
	dims = dims[:2*rank]
	for i := range dims {
		dims[i] = int64(binary.LittleEndian.Uint64(b[tensorSize+8*i:]))
	}
	m.spec.Shape, m.spec.Strides = dims[:rank:rank], dims[rank:]
	m.label = string(b[tensorSize+16*rank:])
	return nil
}

// maxReleased bounds the tensors of one message.
const maxReleased = 512

func appendReleased(b []byte, ids []uint64) []byte {
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint64(b, id)
	}
	return b
}

// countReleased returns how many tensors a message releases. releasedAt returns the number of one.
func countReleased(b []byte) (int, error) {
	if n := len(b) / 8; len(b)%8 == 0 && n >= 1 && n <= maxReleased {
		return n, nil
	}
	return 0, violation("%d bytes release tensors: 1 to %d numbers of 8 bytes are possible", len(b), maxReleased)
}

func releasedAt(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }

func appendForget(b []byte, id uint32) []byte { return binary.LittleEndian.AppendUint32(b, id) }

func readForget(b []byte) (uint32, error) {
	if len(b) != 4 {
		return 0, violation("a message that forgets a memory has %d bytes, and needs 4", len(b))
	}
	return binary.LittleEndian.Uint32(b), nil
}
