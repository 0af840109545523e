//go:build !(ucx && linux && cgo)

package ucx

import (
	"runtime"

	"github.com/dlx-go/dlx/core"
)

// Load fails with core.ErrNotSupported, and says what the build needs.
func Load() error {
	if runtime.GOOS != "linux" {
		return core.Errorf(core.ErrNotSupported, "ucx", "Load", "UCX works on Linux, and this system is %s", runtime.GOOS)
	}
	return core.Errorf(core.ErrNotSupported, "ucx", "Load", "this program was built without UCX: build with cgo and -tags ucx")
}

// Version returns "".
func Version() string { return "" }

// Knows fails as Load does.
func Knows(Memory) error { return Load() }

// Worker cannot be made.
type Worker struct{}

// Handler gets what the peer does.
type Handler struct {
	Arrived func(*Message) bool
	Broken  func(error)
	Dropped func()
	Token   *[TokenSize]byte
	Foreign func(int64)
}

// NewWorker fails as Load does.
func NewWorker(int, Handler) (*Worker, error) { return nil, Load() }

// Address returns nil.
func (*Worker) Address() []byte { return nil }

// MaxHeader returns 0.
func (*Worker) MaxHeader() int { return 0 }

// Connect fails as Load does.
func (*Worker) Connect([]byte) error { return Load() }

// Flush fails as Load does.
func (*Worker) Flush(func(error)) error { return Load() }

// Send fails as Load does.
func (*Worker) Send([]byte, uintptr, int64, bool, func(error)) error { return Load() }

// SendFrom fails as Load does.
func (*Worker) SendFrom(Memory, []byte, uintptr, int64, bool, func(error)) error { return Load() }

// Poll returns false.
func (*Worker) Poll() bool { return false }

// Transports returns nil.
func (*Worker) Transports() []string { return nil }

// Close does nothing.
func (*Worker) Close() error { return nil }

// Message is a message of the peer.
type Message struct {
	Header []byte
	Length int64
}

// Fetched returns false.
func (*Message) Fetched() bool { return false }

// Receive fails as Load does.
func (*Message) Receive(uintptr, int64, func(error)) error { return Load() }

// ReceiveInto fails as Load does.
func (*Message) ReceiveInto(Memory, uintptr, int64, func(error)) error { return Load() }

// Drop does nothing.
func (*Message) Drop() {}
