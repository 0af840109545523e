//go:build ucx && linux && cgo

package remote

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// talkative is the control connection of a peer that goes on to send after the end. It keeps the deadlines that were set.
type talkative struct {
	net.Conn
	bytes.Reader
	deadlines []time.Time
}

func (c *talkative) Read(b []byte) (int, error) { return c.Reader.Read(b) }

func (c *talkative) SetReadDeadline(at time.Time) error {
	c.deadlines = append(c.deadlines, at)
	return nil
}

// A peer that goes on to send does not move the time by which the end of a connection hears no more of it.
func TestTheEndDoesNotWaitForATalkativePeer(t *testing.T) {
	const pings = 100
	peer := &talkative{}
	peer.Reset(bytes.Repeat(finishControl(appendControl(nil, controlPing)), pings))
	c := &Conn{raw: peer, socket: peer, heard: make(chan struct{}), err: errClosedHere, options: Options{KeepAlive: time.Hour}}
	c.life, c.stop = context.WithCancel(t.Context())
	c.stop()
	c.read()
	<-c.heard
	if _, err := peer.ReadByte(); err != io.EOF || len(peer.deadlines) <= pings {
		t.Fatalf("%d deadlines were set, and then reading returned %v", len(peer.deadlines), err)
	}
	for i, at := range peer.deadlines {
		if !at.Equal(peer.deadlines[0]) {
			t.Fatalf("message %d has moved the deadline by %v", i, at.Sub(peer.deadlines[0]))
		}
	}
}
