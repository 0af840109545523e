//go:build ucx && linux && cgo

package remote

import (
	"context"
	"errors"
	"testing"

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
	b.mu.Lock() // the peer takes no message, until UCX has no room for another one
	for range maxTensors {
		if _, err = a.Send(stopped, x); err != nil { // which waits for nothing but room
			break
		}
	}
	pending := len(buffer.Pending())
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
