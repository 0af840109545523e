package share

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// fromC returns a context such as those of libdlx, which ends in a minute.
func fromC(t *testing.T) context.Context { return bounded{lonely{t, time.Now().Add(time.Minute)}} }

// A call that does not wait reads a message if no other call reads, and then keeps others from reading until it has handled it.
func TestReadingWithoutWaiting(t *testing.T) {
	x, y := pair(t)
	s, err := newSockets(x)
	if err != nil {
		t.Fatal(err)
	}
	if s.tryRead() {
		t.Error("there is a message before one is written")
	}
	for _, text := range []string{"one", "two"} {
		if _, err := y.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if !s.tryRead() {
		t.Fatal("there is no message")
	}
	b, _, err := s.arrived()
	if err != nil || string(b) != "one" {
		t.Errorf("the first message is %q, %v", b, err)
	}
	if s.tryRead() {
		t.Error("two calls read at once")
	}
	s.reading.Unlock()
	b, _, err = s.read()
	if err != nil || string(b) != "two" {
		t.Errorf("the second message is %q, %v", b, err)
	}
	s.reading.Unlock()
	y.Close()
	if !s.tryRead() {
		t.Fatal("the end is not seen")
	}
	if _, _, err := s.arrived(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	s.reading.Unlock()
	x.Close()
	if s.tryRead() {
		t.Error("a closed socket has a message")
	}
}

// Calls that read by themselves, calls that do not, and the goroutine of the connection get all tensors.
func TestCallsFromCReadBesideOthers(t *testing.T) {
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	x := shareable(t, d, 16, memfd)
	const each = 300
	var work sync.WaitGroup
	for i := range 4 {
		ctx := t.Context()
		if i%2 == 0 {
			ctx = fromC(t)
		}
		work.Go(func() {
			for range each {
				y, _, err := b.Receive(ctx, e)
				if err != nil {
					t.Error(err)
					return
				}
				y.Close()
			}
		})
	}
	for range 4 * each {
		if _, err := a.Send(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		if err := a.WaitReleased(fromC(t)); err != nil {
			t.Fatal(err)
		}
	}
	work.Wait()
	if sent, got := a.Stats(), b.Stats(); sent.Released != 4*each || got.Received != 4*each || got.Held != 0 {
		t.Errorf("sent %+v, received %+v", sent, got)
	}
}

// The end of a connection has the same reason whoever reads it, and no goroutine stays behind.
func TestCallsFromCReadTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		write func(*intruder)
		want  string
	}{
		"goodbye": {func(x *intruder) { x.write(x.message(kindGoodbye, 0, appendGoodbye(nil, reasonClosed, ""))) }, "the peer closed the connection"},
		"garbage": {func(x *intruder) { x.write(x.message(kind(999), 0, nil)) }, "kind 999"},
		"nothing": {func(x *intruder) { x.socket.Close() }, "ended without closing"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				mine, theirs := pair(t)
				b := made(t, mine, Options{})
				x := &intruder{t: t, socket: theirs}
				x.hello()
				failed := make(chan error, 1)
				go func() {
					_, _, err := b.Receive(fromC(t), nil)
					failed <- err
				}()
				c.write(x)
				x.socket.Close()
				if err := <-failed; !errors.As(err, new(*ConnError)) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the error is %v", err)
				}
				b.Close()
			}
		})
	}
}
