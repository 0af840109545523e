//go:build ucx && linux && cgo

package remote

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// full is a socket of a process that has no descriptor left, for some calls of Accept.
type full struct {
	net.Listener
	calls atomic.Int32
}

func (f *full) Accept() (net.Conn, error) {
	if f.calls.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return f.Listener.Accept()
}

// A listener that cannot accept a connection tries again. The peer waits meanwhile.
func TestAcceptTriesAgain(t *testing.T) {
	ctx, enough := context.WithTimeout(t.Context(), 10*time.Second)
	defer enough()
	o := Options{Insecure: true}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &full{Listener: socket}
	f.calls.Store(3)
	l, err := ListenOn(f, o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := Dial(ctx, l.Addr().String(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	a, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if left := f.calls.Load(); left >= 0 {
		t.Errorf("%d calls of Accept were to fail", left)
	}
}

// A socket is closed if nothing can listen on it.
func TestListenOnFails(t *testing.T) {
	for name, o := range map[string]Options{"no way to prove who a peer is": {}, "not on the loopback interface": {Insecure: true}} {
		socket, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		if l, err := ListenOn(socket, o); !errors.Is(err, core.ErrInvalid) || l != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := socket.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the socket is open: %v", name, err)
		}
	}
}
