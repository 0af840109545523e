package core

import "encoding/binary"

// What is sent to another process is a header of fixed size and the bytes of an IPC
// handle; a descriptor goes beside it. All numbers are little-endian.
//
//	 0  magic         "DLXH"
//	 4  version       1
//	 5  kind          of the object: memory, semaphore or event
//	 6  type          HandleType
//	 7  vendor        Vendor
//	 8  payload size  2 bytes
//	10  flags         bit 0: Dedicated
//	11  descriptors   how many go beside it
//	12  device UUID   16 bytes
//	28  driver UUID   16 bytes
//	44  payload       of memory after Size, Offset, Length (8 bytes each) and MemoryType (4)
const (
	wireMagic   = "DLXH"
	wireVersion = 1
	wireHeader  = 44
	wireMemory  = 28 // bytes that memory has between header and payload

	wireDedicated = 1
)

// wireKind is the kind of object that a message is about.
type wireKind byte

const (
	kindMemory wireKind = iota + 1
	kindSemaphore
	kindEvent
)

// extra is how many bytes a kind has between header and payload.
func (k wireKind) extra() int {
	if k == kindMemory {
		return wireMemory
	}
	return 0
}

// MarshalWithFDs returns a message for another process, which consists of bytes and
// descriptors. On a Unix socket, descriptors are sent with SCM_RIGHTS. The handle still
// owns the descriptors: send them before it is closed, and do not close them.
// [UnmarshalExternalMemory] reads the message.
//
// MarshalWithFDs returns ErrInvalid if the handle has no type, or if the buffer does not
// lie within its allocation. It returns ErrClosed for an empty handle, and ErrNotSupported
// for a type of handle that cannot be sent in this way.
func (m ExternalMemory) MarshalWithFDs() (data []byte, fds []int, err error) {
	const call = "MarshalWithFDs"
	if err := m.check(call); err != nil {
		return nil, nil, err
	}
	data, fds, err = marshalHandle(call, kindMemory, m.Handle, m.DeviceUUID, m.DriverUUID)
	if err != nil {
		return nil, nil, err
	}
	if m.Dedicated {
		data[10] |= wireDedicated
	}
	at := data[wireHeader:]
	binary.LittleEndian.PutUint64(at, uint64(m.Size))
	binary.LittleEndian.PutUint64(at[8:], uint64(m.Offset))
	binary.LittleEndian.PutUint64(at[16:], uint64(m.Length))
	binary.LittleEndian.PutUint32(at[24:], m.MemoryType)
	return data, fds, nil
}

// UnmarshalExternalMemory reads a message that [ExternalMemory.MarshalWithFDs] made, with
// the descriptors that came with it. On success the result owns the descriptors, and the
// caller closes it. On failure the caller still owns the descriptors.
//
// The message need not come from a trusted process. UnmarshalExternalMemory returns
// ErrVersion for a message in another version of the format, ErrNotSupported for a type of
// handle that this system does not have, and ErrInvalid for any other message that
// MarshalWithFDs does not make. It does not check what memory the descriptor stands for;
// the device that imports the memory checks it.
func UnmarshalExternalMemory(data []byte, fds []int) (ExternalMemory, error) {
	const call = "UnmarshalExternalMemory"
	w, err := unmarshalHeader(call, kindMemory, data, fds)
	if err != nil {
		return ExternalMemory{}, err
	}
	at := data[wireHeader:]
	m := ExternalMemory{
		Size:       int64(binary.LittleEndian.Uint64(at)),
		Offset:     int64(binary.LittleEndian.Uint64(at[8:])),
		Length:     int64(binary.LittleEndian.Uint64(at[16:])),
		MemoryType: binary.LittleEndian.Uint32(at[24:]),
		Dedicated:  w.flags&wireDedicated != 0,
		DeviceUUID: w.device, DriverUUID: w.driver,
	}
	if err := m.check(call); err != nil {
		return ExternalMemory{}, err
	}
	if m.Handle, err = w.open(fds); err != nil {
		return ExternalMemory{}, err
	}
	return m, nil
}

// MarshalWithFDs returns a message for another process, as [ExternalMemory.MarshalWithFDs]
// does. [UnmarshalExternalSemaphore] reads the message.
func (x ExternalSemaphore) MarshalWithFDs() (data []byte, fds []int, err error) {
	return marshalHandle("MarshalWithFDs", kindSemaphore, x.Handle, x.DeviceUUID, x.DriverUUID)
}

// UnmarshalExternalSemaphore reads a message that [ExternalSemaphore.MarshalWithFDs] made.
// It takes ownership of the descriptors, and fails, as [UnmarshalExternalMemory] does.
func UnmarshalExternalSemaphore(data []byte, fds []int) (ExternalSemaphore, error) {
	h, w, err := unmarshalHandle("UnmarshalExternalSemaphore", kindSemaphore, data, fds)
	if err != nil {
		return ExternalSemaphore{}, err
	}
	return ExternalSemaphore{Handle: h, DeviceUUID: w.device, DriverUUID: w.driver}, nil
}

// MarshalWithFDs returns a message for another process, as [ExternalMemory.MarshalWithFDs]
// does. [UnmarshalExternalEvent] reads the message.
func (x ExternalEvent) MarshalWithFDs() (data []byte, fds []int, err error) {
	return marshalHandle("MarshalWithFDs", kindEvent, x.Handle, x.DeviceUUID, x.DriverUUID)
}

// UnmarshalExternalEvent reads a message that [ExternalEvent.MarshalWithFDs] made. It takes
// ownership of the descriptors, and fails, as [UnmarshalExternalMemory] does.
func UnmarshalExternalEvent(data []byte, fds []int) (ExternalEvent, error) {
	h, w, err := unmarshalHandle("UnmarshalExternalEvent", kindEvent, data, fds)
	if err != nil {
		return ExternalEvent{}, err
	}
	return ExternalEvent{Handle: h, DeviceUUID: w.device, DriverUUID: w.driver}, nil
}

// marshalHandle writes a message, in which what a kind has of its own is zero.
func marshalHandle(call string, kind wireKind, h *Handle, device, driver UUID) (data []byte, fds []int, err error) {
	var payload []byte
	switch h.Type().payload() {
	case descriptor:
		number, err := h.Number()
		if err != nil {
			return nil, nil, err
		}
		fds = []int{int(number)}
	case opaqueBytes:
		if payload, err = h.Payload(); err != nil {
			return nil, nil, err
		}
	case noPayload:
		return nil, nil, Errorf(ErrInvalid, "core", call, "the handle has no type")
	default:
		return nil, nil, Errorf(ErrNotSupported, "core", call, "a handle of type %v cannot be sent as descriptors and bytes", h.Type())
	}
	data = make([]byte, wireHeader+kind.extra(), wireHeader+kind.extra()+len(payload))
	copy(data, wireMagic)
	data[4], data[5], data[6], data[7] = wireVersion, byte(kind), byte(h.Type()), byte(h.Vendor())
	binary.LittleEndian.PutUint16(data[8:], uint16(len(payload)))
	data[11] = byte(len(fds))
	copy(data[12:], device[:])
	copy(data[28:], driver[:])
	return append(data, payload...), fds, nil
}

// wireMessage is a header that was checked.
type wireMessage struct {
	handle         HandleType
	vendor         Vendor
	flags          byte
	device, driver UUID
	payload        []byte
}

// unmarshalHeader checks a message, but not whether its descriptors are open.
func unmarshalHeader(call string, kind wireKind, data []byte, fds []int) (w wireMessage, err error) {
	fail := func(sentinel error, format string, args ...any) (wireMessage, error) {
		return wireMessage{}, Errorf(sentinel, "core", call, format, args...)
	}
	if len(data) < 5 || string(data[:4]) != wireMagic {
		return fail(ErrInvalid, "the message does not begin with %q and a version", wireMagic)
	}
	if data[4] != wireVersion {
		return fail(ErrVersion, "the message has version %d; version %d can be read", data[4], wireVersion)
	}
	start := wireHeader + kind.extra()
	switch {
	case len(data) < wireHeader || wireKind(data[5]) != kind:
		return fail(ErrInvalid, "the message is shorter than a header, or about another kind of object")
	case len(data) != start+int(binary.LittleEndian.Uint16(data[8:])):
		return fail(ErrInvalid, "the message has %d bytes, and its header says %d", len(data), start+int(binary.LittleEndian.Uint16(data[8:])))
	case int(data[11]) != len(fds):
		return fail(ErrInvalid, "%d descriptors came with the message, and its header says %d", len(fds), data[11])
	}
	w = wireMessage{
		handle: HandleType(data[6]), vendor: Vendor(data[7]), flags: data[10],
		device: UUID(data[12:28]), driver: UUID(data[28:44]), payload: data[start:],
	}
	known := byte(0)
	if kind == kindMemory {
		known = wireDedicated
	}
	switch p := w.handle.payload(); {
	case w.flags&^known != 0:
		return fail(ErrInvalid, "unknown flags %#x", w.flags&^known)
	case p == noPayload:
		return fail(ErrInvalid, "handle type %d is not known", data[6])
	case p == win32Handle || p == machPort:
		return fail(ErrNotSupported, "a handle of type %v cannot be sent as descriptors and bytes", w.handle)
	case p == descriptor && (len(fds) != 1 || len(w.payload) != 0 || w.vendor != 0):
		return fail(ErrInvalid, "a handle of type %v is one descriptor, and has neither a vendor nor bytes", w.handle)
	case p == opaqueBytes && len(fds) != 0:
		return fail(ErrInvalid, "a handle of type %v has no descriptor", w.handle)
	}
	return w, nil
}

// open makes the handle of a message. It owns the descriptor on success only.
func (w *wireMessage) open(fds []int) (*Handle, error) {
	if w.handle.payload() == opaqueBytes {
		return privateCore{}.NewIPCHandle(w.vendor, w.payload)
	}
	return privateCore{}.NewHandle(w.handle, uintptr(fds[0]))
}

// unmarshalHandle reads a message that is a header and a handle.
func unmarshalHandle(call string, kind wireKind, data []byte, fds []int) (*Handle, wireMessage, error) {
	w, err := unmarshalHeader(call, kind, data, fds)
	if err != nil {
		return nil, w, err
	}
	h, err := w.open(fds)
	return h, w, err
}
