package share

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// withRings adds messages about rings to examples of messages.
func withRings(message func(kind, []byte) []byte, list map[string][]byte) map[string][]byte {
	list["ring"] = message(kindRing, appendRing(nil, &ringMessage{
		id: 2, memory: 3, size: 4096, offset: 512, stride: 256, slots: 5, mode: Latest, name: "frames",
		spec: core.Spec{DType: core.TypeFloat32, Shape: []int64{2, 3}, Flags: core.FlagSubBytePadded},
	}))
	list["subscribe"] = message(kindSubscribe, appendSubscribe(nil, &subscribeMessage{
		id: 1, ring: 2, hold: 3, to: core.DeviceID{Type: core.DeviceVulkan, Index: 1}, how: exchange.Staged, copied: 1 << 40,
	}))
	list["joined"] = message(kindJoined, appendJoined(nil, &joinedMessage{id: 1, first: 7}))
	list["refused"] = message(kindJoined, appendJoined(nil, &joinedMessage{id: 1, text: "no"}))
	list["leave"] = message(kindLeave, appendLeave(nil, 1, 9))
	list["ring end"] = message(kindRingEnd, appendNumber(nil, 2))
	list["unfinished"] = message(kindWork, appendWork(nil, &workMessage{subscription: 1, slot: 3, frame: 1 << 40, semaphore: 5, value: 6}))
	list["ended"] = message(kindWork, appendWork(nil, &workMessage{subscription: 1, slot: 3, frame: 1 << 40, ended: true, result: result{status: resultLost, missing: true, text: "lost"}}))
	return list
}

// againRing reads a message about rings and writes what was read. It returns nil for another one.
func againRing(out []byte, k kind, payload []byte) ([]byte, error) {
	switch k {
	case kindRing:
		m, err := readRing(payload)
		if err != nil {
			return nil, err
		}
		_ = m.check(-1) // does not panic
		_ = m.check(1 << 40)
		return appendRing(out, &m), nil
	case kindSubscribe:
		m, err := readSubscribe(payload)
		return appendSubscribe(out, &m), err
	case kindJoined:
		m, err := readJoined(payload)
		return appendJoined(out, &m), err
	case kindLeave:
		id, next, err := readLeave(payload)
		return appendLeave(out, id, next), err
	case kindWork:
		m, err := readWork(payload)
		return appendWork(out, &m), err
	case kindRingEnd:
		id, err := readNumber(payload)
		return appendNumber(out, id), err
	default:
		return nil, nil
	}
}

// The layout of the messages about rings and of the words is part of the format: docs/share.md has
// the numbers.
func TestTheFormatOfRingsStays(t *testing.T) {
	const rest = "\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00" // of the header
	for name, want := range map[string]string{
		"ring": "DLXS\x01\x00\x08\x00\x5e\x00\x00\x00" + rest + "\x02\x00\x00\x00\x03\x00\x00\x00" +
			"\x00\x10\x00\x00\x00\x00\x00\x00" + "\x00\x02\x00\x00\x00\x00\x00\x00" + "\x00\x01\x00\x00\x00\x00\x00\x00" +
			"\x05\x00\x02\x00" + "\x02\x20\x01\x00" + "\x02\x00\x06\x00" + "\x04\x00\x00\x00" +
			"\x02\x00\x00\x00\x00\x00\x00\x00" + "\x03\x00\x00\x00\x00\x00\x00\x00" + "frames",
		"subscribe": "DLXS\x01\x00\x09\x00\x38\x00\x00\x00" + rest + "\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00" +
			"\x07\x00\x00\x00\x01\x00\x00\x00" + "\x05\x00\x00\x00" + "\x00\x00\x00\x00\x00\x01\x00\x00",
		"joined":  "DLXS\x01\x00\x0a\x00\x24\x00\x00\x00" + rest + "\x01\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00",
		"refused": "DLXS\x01\x00\x0a\x00\x26\x00\x00\x00" + rest + "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00no",
		"leave":   "DLXS\x01\x00\x0b\x00\x24\x00\x00\x00" + rest + "\x01\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00",
		"unfinished": "DLXS\x01\x00\x0d\x00\x40\x00\x00\x00" + rest + "\x01\x00\x00\x00\x03\x00\x00\x00" + "\x00\x00\x00\x00\x00\x01\x00\x00" +
			"\x05\x00\x00\x00\x00\x00\x00\x00" + "\x06\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00",
		"ended": "DLXS\x01\x00\x0d\x00\x44\x00\x00\x00" + rest + "\x01\x00\x00\x00\x03\x00\x01\x00" + "\x00\x00\x00\x00\x00\x01\x00\x00" +
			"\x00\x00\x00\x00\x02\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x01\x00\x00\x00\x00\x00\x00\x00" + "lost",
		"ring end": "DLXS\x01\x00\x0c\x00\x1c\x00\x00\x00" + rest + "\x02\x00\x00\x00",
	} {
		if got := string(examples()[name]); got != want {
			t.Errorf("%s is\n%q, not\n%q", name, got, want)
		}
	}
	if publishedAt != 0 || signalAt != 8 || waitingAt != 12 || logAt != 64 || sequenceAt(5) != 104 || wordsSize(5) != 144 {
		t.Error("the words of the publisher have other places")
	}
	if freedAt != 0 || sleepingAt != 64 || claimsAt != 128 || pageSize(5) != 168 || pack(3, 2) != 3<<16|2 || pack(3, 2|unfinished) != 3<<16|0x8002 {
		t.Error("the words of a subscriber have other places")
	}
}
