package share

import (
	"encoding/binary"
	"math"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/exchange"
)

// The kinds of messages about rings. A side sends them only if the other one has featureRings.
const (
	kindRing      kind = iota + 8 // a ring that the other side can subscribe to; has a descriptor
	kindSubscribe                 // a subscription; has a descriptor
	kindJoined                    // the answer to it
	kindLeave                     // a subscription that the subscriber has ended
	kindRingEnd                   // a ring that the publisher has closed
	kindWork                      // how far the work on a frame is; only with featureWork
)

// The bits of a hello that say that a side knows these kinds.
const (
	featureRings = 1 << 1 // all but kindWork
	featureWork  = 1 << 2 // kindWork, and slots with the bit unfinished
)

const (
	maxSlots = 256       // of a ring
	maxName  = 255       // bytes of the name of a ring
	maxBytes = 1 << 48   // of a ring
	maxFrame = 1<<48 - 1 // number of a frame; the words of a ring have no room for more
)

// ringMessage describes a ring.
type ringMessage struct {
	id     uint32
	memory uint32 // that the slots lie in; 0 for the ring's file
	size   int64  // bytes of the file
	offset int64  // bytes from the start of the file or the memory to the first slot
	stride int64  // bytes from a slot to the next one
	slots  int
	mode   Mode
	spec   core.Spec // of the tensor of each slot: row-major, from the start of the slot on
	name   string
}

const ringSize = 48

func appendRing(b []byte, m *ringMessage) []byte {
	b = binary.LittleEndian.AppendUint32(b, m.id)
	b = binary.LittleEndian.AppendUint32(b, m.memory)
	for _, x := range []int64{m.size, m.offset, m.stride} {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(m.slots))
	b = append(b, byte(m.mode), 0, byte(m.spec.DType.Code), m.spec.DType.Bits)
	b = binary.LittleEndian.AppendUint16(b, m.spec.DType.Lanes)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(m.spec.Shape)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(m.name)))
	b = binary.LittleEndian.AppendUint32(b, uint32(m.spec.Flags&core.FlagSubBytePadded))
	for _, x := range m.spec.Shape {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	return append(b, m.name...)
}

// readRing reads the payload of a ring, and checks it as far as that does not depend on the
// memory.
func readRing(b []byte) (m ringMessage, err error) {
	if len(b) < ringSize {
		return m, violation("a ring has %d bytes, and needs %d", len(b), ringSize)
	}
	m = ringMessage{
		id: binary.LittleEndian.Uint32(b), memory: binary.LittleEndian.Uint32(b[4:]),
		slots: int(binary.LittleEndian.Uint16(b[32:])), mode: Mode(b[34]),
		spec: core.Spec{
			DType: core.DType{Code: typecode.Code(b[36]), Bits: b[37], Lanes: binary.LittleEndian.Uint16(b[38:])},
			Flags: core.Flags(binary.LittleEndian.Uint32(b[44:])),
		},
	}
	size, offset, stride := binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	rank, name := int(binary.LittleEndian.Uint16(b[40:])), int(binary.LittleEndian.Uint16(b[42:]))
	switch {
	case m.id == 0:
		return m, violation("0 is not the number of a ring")
	case rank > core.MaxRank || name == 0 || name > maxName || len(b) != ringSize+8*rank+name:
		return m, violation("a ring of %d bytes has %d axes, of 8 bytes each, and a name of %d bytes: at most %d and 1 to %d are possible", len(b), rank, name, core.MaxRank, maxName)
	case m.slots < 1 || m.slots > maxSlots || m.mode != Queue && m.mode != Latest || b[35] != 0:
		return m, violation("a ring has %d slots and the mode %d: 1 to %d slots and the modes %d and %d are possible", m.slots, m.mode, maxSlots, Queue, Latest)
	case size > maxBytes || offset > maxBytes || stride > maxBytes/maxSlots:
		return m, violation("a ring has a file of %d bytes, and slots of %d bytes from byte %d on: at most %d bytes are possible", size, stride, offset, int64(maxBytes))
	case m.spec.Flags&^core.FlagSubBytePadded != 0:
		return m, violation("the slots of a ring have the unknown flags %#x", uint64(m.spec.Flags))
	}
	m.size, m.offset, m.stride = int64(size), int64(offset), int64(stride)
	m.spec.Shape = make([]int64, rank)
	for i := range m.spec.Shape {
		m.spec.Shape[i] = int64(binary.LittleEndian.Uint64(b[ringSize+8*i:]))
	}
	m.name = string(b[ringSize+8*rank:])
	return m, nil
}

// check fails unless the words and the slots lie where they can: the slots in memory of
// available bytes, or in the file if available is -1.
func (m *ringMessage) check(available int64) error {
	words := wordsSize(m.slots)
	whole := core.Memory{ID: core.CPU, Handle: 1, Size: available}
	if available < 0 {
		whole.Size = m.size
	}
	last := m.spec
	last.Offset = m.offset + int64(m.slots-1)*m.stride
	var t core.Tensor // only to check it
	err := privateCore.Describe("message", &t, &whole, &last)
	switch bytes := t.NumBytes(); {
	case err != nil:
		return core.Errorf(core.ErrInvalid, "share", "message", "the last slot of ring %q: %v", m.name, err)
	case t.IsEmpty():
		return violation("the slots of ring %q have no elements", m.name)
	case m.slots > 1 && m.stride < bytes:
		return violation("the slots of ring %q overlap: they have %d bytes, and the next one begins after %d", m.name, bytes, m.stride)
	case m.size < words || available < 0 && m.offset < words:
		return violation("the file of ring %q has %d bytes, and slots from byte %d on: its words take %d", m.name, m.size, m.offset, words)
	}
	return nil
}

// slot returns the position of a slot in the file or the memory.
func (m *ringMessage) slot(i int) int64 { return m.offset + int64(i)*m.stride }

// subscribeMessage is what a subscriber says of itself.
type subscribeMessage struct {
	id, ring uint32
	hold     int // frames that it may hold at once
	to       core.DeviceID
	how      exchange.Mechanism
	copied   int64 // bytes of each frame
}

const subscribeSize = 32

func appendSubscribe(b []byte, m *subscribeMessage) []byte {
	for _, x := range []uint32{m.id, m.ring, uint32(m.hold), uint32(m.to.Type), uint32(m.to.Index)} {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	b = append(b, byte(m.how), 0, 0, 0)
	return binary.LittleEndian.AppendUint64(b, uint64(m.copied))
}

func readSubscribe(b []byte) (m subscribeMessage, err error) {
	if len(b) != subscribeSize {
		return m, violation("a subscription has %d bytes, and needs %d", len(b), subscribeSize)
	}
	hold, copied := binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint64(b[24:])
	m = subscribeMessage{
		id: binary.LittleEndian.Uint32(b), ring: binary.LittleEndian.Uint32(b[4:]), hold: int(min(hold, maxSlots)),
		to:  core.DeviceID{Type: core.DeviceType(binary.LittleEndian.Uint32(b[12:])), Index: int32(binary.LittleEndian.Uint32(b[16:]))},
		how: exchange.Mechanism(b[20]), copied: int64(min(copied, math.MaxInt64)),
	}
	if m.id == 0 || hold < 1 || hold > maxSlots || m.how < exchange.Alias || m.how > exchange.Staged || b[21] != 0 || b[22] != 0 || b[23] != 0 || copied > math.MaxInt64 {
		return m, violation("subscription %d holds %d frames, of which %d bytes are copied, by mechanism %d: 1 to %d frames and the mechanisms %d to %d are possible", m.id, hold, copied, m.how, maxSlots, exchange.Alias, exchange.Staged)
	}
	return m, nil
}

// joinedMessage is the answer to a subscription.
type joinedMessage struct {
	id    uint32
	first uint64 // number of the first frame that the subscriber gets; 0 if it is refused
	text  string // why it is refused
}

const joinedSize = 12

func appendJoined(b []byte, m *joinedMessage) []byte {
	b = binary.LittleEndian.AppendUint32(b, m.id)
	b = binary.LittleEndian.AppendUint64(b, m.first)
	return append(b, m.text[:min(len(m.text), maxText)]...)
}

func readJoined(b []byte) (m joinedMessage, err error) {
	if len(b) < joinedSize || len(b) > joinedSize+maxText {
		return m, violation("an answer to a subscription has %d bytes: %d to %d are possible", len(b), joinedSize, joinedSize+maxText)
	}
	m = joinedMessage{id: binary.LittleEndian.Uint32(b), first: binary.LittleEndian.Uint64(b[4:]), text: string(b[joinedSize:])}
	if m.id == 0 || m.first > maxFrame || m.first > 0 && m.text != "" {
		return m, violation("the answer to subscription %d has the first frame %d and a text of %d bytes", m.id, m.first, len(m.text))
	}
	return m, nil
}

// appendLeave writes the payload of a message that ends a subscription. next is the first frame
// that the subscriber has not received.
func appendLeave(b []byte, id uint32, next uint64) []byte {
	b = binary.LittleEndian.AppendUint32(b, id)
	return binary.LittleEndian.AppendUint64(b, next)
}

func readLeave(b []byte) (id uint32, next uint64, err error) {
	if len(b) != 12 || binary.LittleEndian.Uint32(b) == 0 {
		return 0, 0, violation("the end of a subscription has %d bytes, and needs 12, a number that is not 0 and a frame", len(b))
	}
	return binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:]), nil
}

// appendNumber writes the payload of a message that ends a ring.
func appendNumber(b []byte, id uint32) []byte { return binary.LittleEndian.AppendUint32(b, id) }

func readNumber(b []byte) (uint32, error) {
	if len(b) != 4 || binary.LittleEndian.Uint32(b) == 0 {
		return 0, violation("the end of a ring has %d bytes, and needs 4, a number that is not 0", len(b))
	}
	return binary.LittleEndian.Uint32(b), nil
}

// workMessage says how far the work is that writes a frame.
type workMessage struct {
	subscription uint32
	slot         int
	frame        uint64
	ended        bool
	semaphore    uint32 // that reaches value with the work; 0 without one, and when the work has ended
	value        uint64
	result       result // of work that has ended
}

const workSize = 40

func appendWork(b []byte, m *workMessage) []byte {
	b = binary.LittleEndian.AppendUint32(b, m.subscription)
	b = binary.LittleEndian.AppendUint16(b, uint16(m.slot))
	ended, flags := byte(0), uint32(0)
	if m.ended {
		ended = 1
	}
	if m.result.missing {
		flags = resultMissing
	}
	b = append(b, ended, 0)
	b = binary.LittleEndian.AppendUint64(b, m.frame)
	b = binary.LittleEndian.AppendUint32(b, m.semaphore)
	b = binary.LittleEndian.AppendUint32(b, uint32(m.result.status))
	b = binary.LittleEndian.AppendUint64(b, m.value)
	b = binary.LittleEndian.AppendUint32(b, flags)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return append(b, m.result.text[:min(len(m.result.text), maxText)]...)
}

func readWork(b []byte) (m workMessage, err error) {
	if len(b) < workSize || len(b) > workSize+maxText {
		return m, violation("a message about the work on a frame has %d bytes: %d to %d are possible", len(b), workSize, workSize+maxText)
	}
	m = workMessage{
		subscription: binary.LittleEndian.Uint32(b), slot: int(binary.LittleEndian.Uint16(b[4:])), ended: b[6] == 1,
		frame: binary.LittleEndian.Uint64(b[8:]), semaphore: binary.LittleEndian.Uint32(b[16:]), value: binary.LittleEndian.Uint64(b[24:]),
		result: result{status: resultStatus(binary.LittleEndian.Uint32(b[20:])), text: string(b[workSize:])},
	}
	flags := binary.LittleEndian.Uint32(b[32:])
	m.result.missing = flags == resultMissing
	r := &m.result
	switch {
	case m.subscription == 0 || m.slot >= maxSlots || m.frame == 0 || m.frame > maxFrame:
		return m, violation("a message about the work on a frame has subscription %d, slot %d and frame %d", m.subscription, m.slot, m.frame)
	case b[6] > 1 || b[7] != 0 || flags&^resultMissing != 0 || binary.LittleEndian.Uint32(b[36:]) != 0:
		return m, violation("a message about the work on frame %d has the state %d, the flags %#x, or reserved bytes that are not 0", m.frame, b[6], flags)
	case (m.semaphore == 0) != (m.value == 0) || m.ended && m.semaphore != 0:
		return m, violation("the work on frame %d has semaphore %d with the value %d, ended %t", m.frame, m.semaphore, m.value, m.ended)
	case !m.ended && (r.status != resultOK || r.missing) || r.status == resultOK && r.text != "":
		return m, violation("the work on frame %d has the status %d and a text of %d bytes, ended %t", m.frame, r.status, len(r.text), m.ended)
	}
	return m, nil
}
