//go:build ucx && linux && cgo

package ucx

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// backlogVariable makes the test binary run TestBacklog for the transports that UCX_TLS names.
const backlogVariable = "DLX_UCX_BACKLOG"

// A worker takes all that waits in the transport, also if the poller has heard of it once only. UCX looks after its
// connections every 20 seconds, which hides that a worker sleeps beside messages, so that is switched off.
func TestBacklog(t *testing.T) {
	if os.Getenv(backlogVariable) != "" {
		backlog(t)
		return
	}
	for _, transport := range []string{"tcp", "sysv,self", "posix,self"} {
		t.Run(transport, func(t *testing.T) {
			if tls := os.Getenv("UCX_TLS"); tls != "" && !slices.Contains(strings.Split(tls, ","), strings.Split(transport, ",")[0]) {
				t.Skipf("UCX_TLS is %s", tls)
			}
			p := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBacklog$", "-test.timeout=2m")
			p.Env = append(os.Environ(), backlogVariable+"=1", "UCX_TLS="+transport, "UCX_KEEPALIVE_INTERVAL=inf",
				"UCX_TCP_RX_SEG_SIZE=8k", "UCX_TCP_TX_SEG_SIZE=8k") // one message for each call of progress
			if out, err := p.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func backlog(t *testing.T) {
	const count = 200
	arrived := make(chan struct{}, count)
	none := func() { t.Error("a message was dropped") }
	broken := func(error) {} // when the other one is closed
	from, err := NewWorker(count, Handler{Arrived: func(*Message) bool { return false }, Broken: broken, Dropped: none})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := NewWorker(count, Handler{Arrived: func(*Message) bool { arrived <- struct{}{}; return false }, Broken: broken, Dropped: none})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := errors.Join(from.Connect(to.Address()), to.Connect(from.Address())); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, MaxEager)
	send := func(n int) {
		var all []func() error
		for range n {
			result := make(chan error, 1)
			if err := from.Send([]byte{1}, uintptr(unsafe.Pointer(&data[0])), MaxEager, false, func(err error) { result <- err }); err != nil {
				t.Fatal(err)
			}
			all = append(all, func() error { return <-result })
		}
		for _, result := range all {
			if err := result(); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(1) // connects
	<-arrived
	const held = 32 // shared memory has room for so many, and a socket too
	for range 20 {
		to.mu.Lock()
		send(held)
		to.mu.Unlock()
		for range held {
			<-arrived
		}
	}
}
