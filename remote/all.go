package remote

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/dlx-go/dlx/core"
)

// Received is a tensor that has come from the peer.
type Received struct {
	Tensor *core.Tensor // the caller closes it
	Report
}

// All returns the tensors that the peer sends, each as [Conn.Receive] returns it, until the peer has closed the connection and
// all tensors that it has sent were received. If Receive fails otherwise, the last element is its error, with no tensor. A peer
// that ends without closing the connection is such an error, and so is one that closes it before all tensors have arrived
// (io.ErrUnexpectedEOF). A loop may stop before: what comes later is for the next call.
func (c *Conn) All(ctx context.Context, device core.Device) iter.Seq2[Received, error] {
	return func(yield func(Received, error) bool) {
		for {
			t, r, err := c.Receive(ctx, device)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(Received{t, r}, err) || err != nil {
				return
			}
		}
	}
}
