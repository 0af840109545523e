package parts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/share"
)

// wrong begins the label of a tensor that another process sends since it could not do as it should.
const wrong = "wrong: "

// echo sends each tensor back that comes over a connection, with its label, until the connection ends. It
// releases a tensor when the peer has the one that it sent.
func echo(ctx context.Context, c *share.Conn) error {
	for {
		x, r, err := c.Receive(ctx, nil)
		if c.Err() != nil || ctx.Err() != nil {
			x.Close()
			return err
		}
		if err == nil {
			_, err = c.SendLabeled(ctx, x, r.Label)
			x.Close()
		}
		if err == nil {
			continue
		}
		none, failed := core.FromSlice([]uint8{}, 0)
		if failed != nil {
			return failed
		}
		text := wrong + err.Error()
		_, err = c.SendLabeled(ctx, none, text[:min(len(text), 1000)])
		none.Close()
		if err != nil {
			return err
		}
	}
}

// Peer is a process that sends tensors back.
type Peer struct {
	conn *share.Conn
	turn chan struct{} // holds one element while a tensor is away: they come back in their order
	next int           // the number of the next one
}

// Report is what package share says of a tensor.
type Report = share.Report

// Connect makes a peer of a connection to a process that calls Answer, and of the devices of this process. It owns
// the socket on success.
func Connect(socket *net.UnixConn, devices []core.Device) (*Peer, error) {
	c, err := share.New(socket, share.Options{Devices: devices})
	if err != nil {
		return nil, err
	}
	return &Peer{conn: c, turn: make(chan struct{}, 1)}, nil
}

// Answer sends tensors back that come over a socket, until the peer closes the connection. It owns the socket on
// success.
func Answer(ctx context.Context, socket *net.UnixConn, devices []core.Device) error {
	c, err := share.New(socket, share.Options{Devices: devices})
	if errors.Is(err, core.ErrClosed) { // the peer has closed the connection before
		return socket.Close()
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if err := echo(ctx, c); !errors.Is(err, core.ErrClosed) {
		return err
	}
	return nil
}

// Over sends a tensor to the peer, calls meanwhile, which may be nil, and returns what comes back, on a device. The
// caller closes the result. sent is the report of Send.
func (p *Peer) Over(ctx context.Context, x *core.Tensor, d core.Device, meanwhile func() error) (y *core.Tensor, sent, received share.Report, err error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, sent, received, ctx.Err()
	}
	p.next++
	label := fmt.Sprint(p.next)
	if sent, err = p.conn.SendLabeled(ctx, x, label); err != nil {
		return nil, sent, received, err
	}
	var failed error
	if meanwhile != nil {
		failed = meanwhile()
	}
	y, received, err = p.conn.Receive(ctx, d)
	switch {
	case failed != nil:
		err = failed
	case err != nil:
	case strings.HasPrefix(received.Label, wrong):
		err = core.Errorf(core.ErrInvalid, "soak", "Echo", "the other process: %s", received.Label)
	case received.Label != label:
		err = core.Errorf(core.ErrInvalid, "soak", "Receive", "tensor %q came back, and %q was sent", received.Label, label)
	default:
		return y, sent, received, nil
	}
	y.Close()
	return nil, sent, received, err
}

// Close ends the connection.
func (p *Peer) Close() error { return p.conn.Close() }
