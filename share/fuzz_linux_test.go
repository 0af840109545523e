package share

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// FuzzConnection sends two messages of an intruder with a memory between them: whatever comes,
// the connection ends without a panic, or goes on.
func FuzzConnection(f *testing.F) {
	for _, b := range examples() {
		f.Add(uint16(kindTensor), b[headerSize:], uint16(kindReleased), []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
	f.Add(uint16(kindTensor), appendTensor(nil, &tensorMessage{id: 1, memory: 1, spec: core.Spec{DType: core.TypeInt32, Shape: []int64{8}, Strides: []int64{1}}}),
		uint16(kindForget), appendForget(nil, 1))
	d := host(f)
	f.Fuzz(func(t *testing.T, k1 uint16, p1 []byte, k2 uint16, p2 []byte) {
		if len(p1) > maxMessage || len(p2) > maxMessage {
			return
		}
		mine, theirs := pair(t)
		c := made(t, mine, of(d))
		x := &intruder{t: t, socket: theirs}
		x.hello()
		data, fd := x.memory(4096, 4096, core.HandleMemFD, unix.F_SEAL_SHRINK)
		x.write(x.message(kindMemory, 1, appendObject(nil, 1, objectMemory, data)), fd)
		x.write(x.message(kind(k1), 0, p1))
		x.write(x.message(kind(k2), 0, p2))
		x.write(x.message(kindGoodbye, 0, appendGoodbye(nil, reasonClosed, "")))
		for {
			y, _, err := c.Receive(t.Context(), d)
			if err != nil {
				break
			}
			if all, err := core.All[int32](y); err == nil {
				_ = slices.Collect(all) // it can be read
			}
			y.Close()
		}
		_ = c.Close()
		if s := c.Stats(); s.Held != 0 {
			t.Errorf("afterwards: %+v", s)
		}
	})
}
