package share

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// fromC returns a context such as those of libdlx.
func fromC(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return callFromC{ctx}
}

type callFromC struct{ context.Context }

func (callFromC) EndsAtDeadline() {}

// A call that does not wait reads a message of the kind that it is for, if no other call reads, and then keeps others from reading until
// it has handled it.
func TestReadingWithoutWaiting(t *testing.T) {
	x, y := pair(t)
	s, err := newSockets(x)
	if err != nil {
		t.Fatal(err)
	}
	if s.tryRead(kindTensor) {
		t.Error("there is a message before one is written")
	}
	messages := [][]byte{appendHeader(nil, header{kind: kindTensor}), appendHeader(nil, header{kind: kindReleased}), []byte("short")}
	for _, m := range messages {
		if _, err := y.Write(m); err != nil {
			t.Fatal(err)
		}
	}
	if !s.tryRead(kindTensor) {
		t.Fatal("there is no message")
	}
	b, _, err := s.arrived()
	if err != nil || !bytes.Equal(b, messages[0]) {
		t.Errorf("the first message is %q, %v", b, err)
	}
	if s.tryRead(kindReleased) {
		t.Error("two calls read at once")
	}
	s.reading.Unlock()
	for _, m := range messages[1:] {
		if s.tryRead(kindTensor) {
			t.Errorf("a call for tensors reads %q", m)
		}
		b, _, err = s.read()
		if err != nil || !bytes.Equal(b, m) {
			t.Errorf("the next message is %q, %v", b, err)
		}
		s.reading.Unlock()
	}
	y.Close()
	if s.tryRead(kindTensor) {
		t.Error("the end is a tensor")
	}
	if _, _, err := s.read(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	s.reading.Unlock()
	x.Close()
	if s.tryRead(kindTensor) {
		t.Error("a closed socket has a message")
	}
}

// With one processor, the goroutine that reads does not run between the two lines that count.
func TestACallFromCReadsATensor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	x := shareable(t, d, 16, memfd)
	if err := round(t.Context(), a, b, e, x); err != nil { // passes the memory
		t.Fatal(err)
	}
	queued := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.queue)
	}
	read := 0
	for range 20 { // the system may stop this thread between them
		b.socket.reading.Lock()
		if _, err := a.Send(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		before := queued()
		b.socket.reading.Unlock()
		b.readHere()
		read += queued() - before
		y, _, err := b.Receive(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		y.Close()
	}
	if read == 0 {
		t.Error("no call has read a tensor")
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
		"tensor":  {func(x *intruder) { x.tensor(func(*tensorMessage) {}) }, "memory 1"},
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
