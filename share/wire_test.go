package share

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// examples are messages of each kind.
func examples() map[string][]byte {
	message := func(k kind, payload []byte) []byte {
		b := append(appendHeader(nil, header{kind: k}), payload...)
		finish(b, 7)
		return b
	}
	return withRings(message, map[string][]byte{
		"hello": message(kindHello, appendHello(nil, hello{features: 1, limits: Limits{Tensors: 1, Memories: 2, Bytes: 3}, devices: []PeerDevice{{
			ID: core.DeviceID{Type: core.DeviceVulkan, Index: 1}, UUID: core.UUID{1}, DriverUUID: core.UUID{2}, PCI: "0000:65:00.0",
			Exports: []core.HandleType{core.HandleOpaqueFD}, Imports: []core.HandleType{core.HandleOpaqueFD, core.HandleDMABuf},
			SemaphoreExports: []core.HandleType{core.HandleBinaryFD}, IPCEvents: true,
		}}})),
		"goodbye": message(kindGoodbye, appendGoodbye(nil, reasonQuota, "too much")),
		"memory":  message(kindMemory, appendObject(nil, 3, objectMemory, []byte("DLXH"))),
		"tensor": message(kindTensor, appendTensor(nil, &tensorMessage{id: 1 << 40, memory: 2, order: objectSemaphore, by: 5, value: 6, label: "x", spec: core.Spec{
			DType: core.TypeFloat32, Shape: []int64{2, 3}, Strides: []int64{-3, 1}, Offset: 8, Flags: core.FlagReadOnly,
		}})),
		"semaphore": message(kindOrder, appendObject(nil, 4, objectSemaphore, []byte("DLXH"))),
		"result":    message(kindOrder, appendResult(nil, result{tensor: 1 << 40, status: resultLost, missing: true, text: "lost"})),
		"released":  message(kindReleased, appendReleased(nil, []uint64{1, 1 << 50})),
		"forget":    message(kindForget, appendForget(nil, 9)),
	})
}

// again reads a message and writes what was read. It returns nil for a message that is refused.
func again(t *testing.T, b []byte) []byte {
	h, payload, err := readHeader(b, int(fdsOf(b)))
	if err == nil {
		out := appendHeader(nil, h)
		switch h.kind {
		case kindHello:
			var x hello
			if x, err = readHello(payload); err == nil {
				out = appendHello(out, x)
			}
		case kindGoodbye:
			var r reason
			var text string
			if r, text, err = readGoodbye(payload); err == nil {
				out = appendGoodbye(out, r, text)
			}
		case kindMemory, kindOrder:
			if h.kind == kindOrder && isResult(payload) {
				var r result
				if r, err = readResult(payload); err == nil {
					out = appendResult(out, r)
				}
				break
			}
			var id uint32
			var what objectKind
			var data []byte
			if id, what, data, err = readObject(payload); err == nil {
				out = appendObject(out, id, what, data)
			}
		case kindTensor:
			var m tensorMessage
			if err = m.read(payload, make([]int64, 4)); err == nil {
				if len(m.spec.Shape) != len(m.spec.Strides) {
					t.Errorf("%d extents and %d strides", len(m.spec.Shape), len(m.spec.Strides))
				}
				out = appendTensor(out, &m)
			}
		case kindReleased:
			var n int
			if n, err = countReleased(payload); err == nil {
				for i := range n {
					out = appendReleased(out, []uint64{releasedAt(payload, i)})
				}
			}
		case kindForget:
			var id uint32
			if id, err = readForget(payload); err == nil {
				out = appendForget(out, id)
			}
		default:
			if out, err = againRing(out, h.kind, payload); out == nil && err == nil {
				return nil
			}
		}
		if err == nil {
			finish(out, h.sequence)
			return out
		}
	}
	if !errors.Is(err, core.ErrInvalid) && !errors.Is(err, core.ErrVersion) {
		t.Errorf("a message is refused with %v", err)
	}
	return nil
}

// fdsOf returns how many descriptors the header says.
func fdsOf(b []byte) uint16 {
	if len(b) < headerSize {
		return 0
	}
	return uint16(b[12]) | uint16(b[13])<<8
}

func TestMessages(t *testing.T) {
	for name, b := range examples() {
		if got := again(t, b); !bytes.Equal(got, b) {
			t.Errorf("%s is read and written as\n%x, not\n%x", name, got, b)
		}
		for n := range len(b) {
			if got := again(t, b[:n]); got != nil {
				t.Errorf("%d of %d bytes of %s are taken", n, len(b), name)
			}
		}
	}
}

// The layout of each message is part of the format: docs/share.md has the numbers.
func TestTheFormatStays(t *testing.T) {
	for name, want := range map[string]string{
		"goodbye":  "DLXS\x01\x00\x02\x00\x24\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00" + "\x03\x00\x00\x00too much",
		"memory":   "DLXS\x01\x00\x03\x00\x24\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00" + "\x03\x00\x00\x00\x00\x00\x00\x00DLXH",
		"released": "DLXS\x01\x00\x05\x00\x28\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00" + "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00",
		"forget":   "DLXS\x01\x00\x06\x00\x1c\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00" + "\x09\x00\x00\x00",
		"tensor": "DLXS\x01\x00\x04\x00\x69\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00" +
			"\x00\x00\x00\x00\x00\x01\x00\x00" + "\x02\x00\x00\x00" + "\x02\x20\x01\x00" + "\x01\x00\x00\x00" + "\x02\x00" + "\x01\x00" +
			"\x08\x00\x00\x00\x00\x00\x00\x00" + "\x05\x00\x00\x00\x01\x00\x00\x00" + "\x06\x00\x00\x00\x00\x00\x00\x00" +
			"\x02\x00\x00\x00\x00\x00\x00\x00" + "\x03\x00\x00\x00\x00\x00\x00\x00" + "\xfd\xff\xff\xff\xff\xff\xff\xff" + "\x01\x00\x00\x00\x00\x00\x00\x00" + "x",
	} {
		if got := string(examples()[name]); got != want {
			t.Errorf("%s is\n%q, not\n%q", name, got, want)
		}
	}
	if n := len(examples()["hello"]); n != headerSize+helloSize+deviceSize || headerSize != 24 || helloSize != 32 || deviceSize != 80 {
		t.Errorf("a hello of one device has %d bytes", n)
	}
}

// A later version may add bytes to a hello and to its devices.
func TestALongerHello(t *testing.T) {
	b := examples()["hello"][headerSize:]
	want, err := readHello(b)
	if err != nil {
		t.Fatal(err)
	}
	longer := append(bytes.Clone(b), 1, 2, 3, 4, 5)
	longer[24] += 3 // each device has three more bytes
	got, err := readHello(longer)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, error %v; want %+v", got, err, want)
	}
}

func FuzzMessage(f *testing.F) {
	for _, b := range examples() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := again(t, b)
		if got == nil {
			return
		}
		if b[6] == byte(kindHello) { // unknown bytes are not written again
			if third := again(t, got); !bytes.Equal(third, got) {
				t.Errorf("%x is read and written as %x", got, third)
			}
		} else if !bytes.Equal(withoutReserved(got), withoutReserved(b)) {
			t.Errorf("%x is read and written as %x", b, got)
		}
	})
}

// withoutReserved clears the reserved bytes of a goodbye, which are not read.
func withoutReserved(b []byte) []byte {
	b = bytes.Clone(b)
	if b[6] == byte(kindGoodbye) {
		b[26], b[27] = 0, 0
	}
	return b
}
