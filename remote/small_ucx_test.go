//go:build ucx && linux && cgo

package remote

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dlx-go/dlx/remote/internal/ucx"
)

// The memory of a small tensor that is given up while UCX has no room for it counts as read until UCX is done with it.
func TestSmallTensorsThatAreGivenUp(t *testing.T) {
	a, b := connect(t, Options{Limits: Limits{Tensors: maxTensors}})
	x := row(t, ucx.MaxEager, 1)
	buffer, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	pending := 0
	b.mu.Lock() // the peer takes no message, until UCX has no room for another one
	for i := 0; i < maxTensors && pending == 0; i++ {
		if _, err = a.Send(stopped, x); err == nil { // which waits for nothing but room
			continue
		}
		end := time.Now().Add(20 * time.Millisecond)
		for pending = len(buffer.Pending()); pending > 0 && time.Now().Before(end); pending = len(buffer.Pending()) {
			time.Sleep(time.Millisecond) // the system may take more
		}
	}
	b.mu.Unlock()
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Send without room returned %v", err)
	}
	if pending == 0 {
		t.Error("the memory does not count as in use while UCX may read it")
	}
	if err := x.WaitIdle(t.Context()); err != nil {
		t.Error(err)
	}
}

// A side makes no more requests at the same time than its own limit, for which its worker has room, also if the peer permits more.
func TestRequestsOfThisSideAreBounded(t *testing.T) {
	l, err := Listen("127.0.0.1:0", Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := Dial(t.Context(), l.Addr().String(), Options{Insecure: true, Limits: Limits{Requests: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []*Conn{a, b} {
		open := []request{{}, {}}
		for i := range open {
			if _, err := c.ask(stopped, &open[i], nil); err != nil { // which there is room for at once
				t.Fatal(err)
			}
		}
		third := request{}
		if _, err := c.ask(stopped, &third, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a third request with a limit of 2: %v", err)
		}
		c.forget(&open[0])
		if _, err := c.ask(stopped, &third, nil); err != nil {
			t.Errorf("a third request after one has ended: %v", err)
		}
	}
}
