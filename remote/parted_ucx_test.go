//go:build ucx && linux && cgo

package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// drainAll returns the elements of what All gives, and its error.
func drainAll(t *testing.T, c *Conn, d core.Device) (got [][]byte, last error) {
	t.Helper()
	for x, err := range c.All(t.Context(), d) {
		if err != nil {
			return got, err
		}
		v, err := core.Values[byte](x.Tensor)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, bytes.Clone(v))
		if err := x.Tensor.Close(); err != nil {
			t.Error(err)
		}
	}
	return got, nil
}

// waitFor waits until so many tensors have begun to arrive.
func waitFor(c *Conn, tensors int) {
	for c.Stats().Waiting != tensors {
		time.Sleep(time.Millisecond)
	}
}

// wantCut checks that an error is the end of a stream that is not complete.
func wantCut(t *testing.T, err error) {
	t.Helper()
	if !errors.As(err, new(*ConnError)) || !errors.Is(err, core.ErrClosed) || !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		t.Errorf("the end of a stream that is not complete is %v", err)
	}
}

// What had arrived when the peer closed the connection is received, and then the stream is complete.
func TestTensorsThatHadArrivedAtTheEnd(t *testing.T) {
	d := host(t)
	for _, small := range []bool{true, false} {
		a, b := connect(t, Options{})
		sizes := []int{100, 0, 8192}
		for i, n := range sizes {
			if _, err := a.Send(t.Context(), row(t, n, uint64(i))); err != nil {
				t.Fatal(err)
			}
		}
		waitFor(b, len(sizes))
		if !small { // and then one that is not there
			sendUnreceived(t, a, row(t, 3*pieceBytes, 9))
			waitFor(b, len(sizes)+1)
		}
		_ = a.Close()
		<-b.Done()
		if _, err := b.Send(t.Context(), row(t, 1, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("Send to a peer that has closed the connection: %v", err)
		}
		got, err := drainAll(t, b, d)
		if len(got) != len(sizes) {
			t.Fatalf("%d tensors of %d came: %v", len(got), len(sizes), err)
		}
		for i, n := range sizes {
			if !bytes.Equal(got[i], coretest.Pattern(n, uint64(i))) {
				t.Errorf("tensor %d differs", i)
			}
		}
		if small {
			if _, _, again := b.Receive(t.Context(), d); err != nil || !errors.Is(again, io.EOF) {
				t.Errorf("after all tensors: %v, then %v", err, again)
			}
			continue
		}
		wantCut(t, err)
		_, _, err = b.Receive(t.Context(), d)
		wantCut(t, err)
	}
}

// sendUnreceived sends a tensor in a goroutine, which ends with the connection.
func sendUnreceived(t *testing.T, c *Conn, x *core.Tensor) {
	done := make(chan struct{})
	t.Cleanup(func() { _ = c.Close(); <-done })
	go func() {
		defer close(done)
		_, _ = c.Send(t.Context(), x) // returns nil if the peer has dropped the tensor by then
	}()
}

// The peer closes the connection while a large tensor is on its way: the loop does not end as if all had come.
func TestAStreamThatIsCut(t *testing.T) {
	d := host(t)
	a, b := connect(t, Options{})
	sendUnreceived(t, a, row(t, 3*pieceBytes, 1))
	waitFor(b, 1)
	slow := gated{d, make(chan struct{}), b.Done()}
	go func() {
		<-slow.asked // the tensor is taken
		_ = a.Close()
	}()
	got, err := drainAll(t, b, slow)
	if len(got) != 0 {
		t.Errorf("%d tensors came", len(got))
	}
	wantCut(t, err)
	if !errors.Is(b.Err(), io.EOF) {
		t.Errorf("the connection ended with %v", b.Err())
	}
}

// A call that finds no more tensors waits for another one that has taken the last tensor.
func TestTheEndWaitsForTheLastTensor(t *testing.T) {
	d := host(t)
	for _, fails := range []bool{false, true} {
		a, b := connect(t, Options{})
		if _, err := a.Send(t.Context(), row(t, 100, 1)); err != nil {
			t.Fatal(err)
		}
		open := make(chan struct{})
		slow := gated{d, make(chan struct{}), open}
		within, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() {
			y, _, err := b.Receive(within, slow)
			if err == nil {
				err = y.Close()
			}
			first <- err
		}()
		<-slow.asked
		_ = a.Close()
		<-b.Done()
		go func() {
			_, _, err := b.Receive(t.Context(), d)
			second <- err
		}()
		if fails { // the tensor is lost
			cancel()
			wantCut(t, <-first)
			wantCut(t, <-second)
			continue
		}
		close(open)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if err := <-second; !errors.Is(err, io.EOF) {
			t.Errorf("after the last tensor: %v", err)
		}
		cancel()
	}
}

// Tensors that nobody receives are dropped by Close, and by the end of a connection that the peer has not closed.
func TestTensorsThatNobodyReceives(t *testing.T) {
	d := host(t)
	for _, mine := range []bool{true, false} {
		a, b := connect(t, Options{})
		if _, err := a.Send(t.Context(), row(t, 100, 1)); err != nil {
			t.Fatal(err)
		}
		waitFor(b, 1)
		if !mine {
			_ = a.Close()
			<-b.Done()
		}
		_ = b.Close()
		if s := b.Stats(); s.Waiting != 0 {
			t.Errorf("stats %+v", s)
		}
		_, _, err := b.Receive(t.Context(), d)
		if mine && !errors.Is(err, net.ErrClosed) || !mine && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after Close: %v", err)
		}
	}
	a, b := connect(t, Options{}) // a peer that lies
	if _, err := a.Send(t.Context(), row(t, 100, 1)); err != nil {
		t.Fatal(err)
	}
	waitFor(b, 1)
	if err := a.tell(t.Context(), controlGoodbye, func(b []byte) []byte { return appendGoodbye(b, goodbye{}) }); err != nil {
		t.Fatal(err)
	}
	<-b.Done()
	if _, _, err := b.Receive(t.Context(), d); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a goodbye with fewer tensors than came: %v", err)
	}
}

// Calls that end their transfers do so while the connection drops what nobody has received.
func TestTransfersEndWithTheConnection(t *testing.T) {
	c := &Conn{inbound: make(map[uint64]*inbound)}
	var all []*inbound
	for i := range uint64(1000) {
		in := &inbound{id: i, home: c.inbound}
		c.inbound[i] = in
		all = append(all, in)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.dropArrived()
	}()
	for _, in := range all {
		c.leave(in)
	}
	<-done
}
