//go:build ucx && linux && cgo

package remote

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// Peers of a program that does not accept connections can fetch: those that have left make room for others.
func TestFetchesThatNobodyAccepts(t *testing.T) {
	setFor(t, &maxHandshakes, 2)
	setFor(t, &maxWaiting, 3)
	d := host(t)
	l, err := Listen("127.0.0.1:0", insecure)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	x := row(t, 10, 1)
	f := offerOf(t, l, x)
	for range 2 { // that stay
		c, err := Dial(t.Context(), l.Addr().String(), insecure)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for i := range 4 {
		y, _, err := Fetch(t.Context(), f.Descriptor(), d, insecure)
		if err != nil {
			t.Fatalf("after %d others: %v", i, err)
		}
		wantEqual(t, x, y)
		_ = y.Close()
	}
	for i := range 3 {
		c, err := l.Accept(t.Context())
		if err != nil || errors.Is(c.Err(), core.ErrClosed) != (i == 2) {
			t.Errorf("connection %d: %v, %v", i, err, c.Err())
		}
		_ = c.Close()
	}
}

// Connections wait for Accept in their order. One for which there is no room learns why, and there is room again after Accept.
func TestConnectionsThatWaitForAccept(t *testing.T) {
	setFor(t, &maxWaiting, 2)
	l, err := Listen("127.0.0.1:0", insecure)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := func() *Conn {
		c, err := Dial(t.Context(), l.Addr().String(), insecure)
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		t.Fatal(err)
		return nil
	}
	waiting := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.waiting)
	}
	first := dial()
	until(func() bool { return waiting() == 1 })
	second := dial()
	until(func() bool { return waiting() == 2 })
	third, err := Dial(t.Context(), l.Addr().String(), insecure)
	if err == nil {
		<-third.Done()
		err = third.Err()
		_ = third.Close()
	}
	if !errors.Is(err, core.ErrClosed) || errors.Is(err, ErrInsecure) || !strings.Contains(err.Error(), "2 connections wait") {
		t.Errorf("the third connection: %v", err)
	}
	for _, c := range []*Conn{first, second} {
		accepted, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		if from := c.raw.LocalAddr().String(); accepted.Peer().String() != from {
			t.Errorf("the connection of %v was accepted when it was the turn of %v", accepted.Peer(), from)
		}
	}
	last := dial()
	until(func() bool { return waiting() == 1 })
	_ = l.Close() // closes it
	<-last.Done()
}

// Peers that say nothing, or only speak TLS, keep nobody from connecting.
func TestPeersThatProveNothing(t *testing.T) {
	setFor(t, &maxHandshakes, 1)
	o := Options{Token: bytes.Repeat([]byte{1}, minToken)}
	l, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 2 {
		silent, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		speaks, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a hostile peer
		if err != nil {
			t.Fatal(err)
		}
		defer speaks.Close()
	}
	c, err := Dial(t.Context(), l.Addr().String(), o)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}
