//go:build ucx && linux && cgo

package remote

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// A loop gets all tensors, may stop and go on, and ends when the peer closes the connection. Other ends are errors.
func TestAll(t *testing.T) {
	d := host(t)
	a, b := connect(t, Options{})
	sent := make(chan error, 1)
	go func() {
		sent <- func() error {
			for i := range 5 {
				x, err := core.FromSlice([]int64{int64(i)})
				if err != nil {
					return err
				}
				_, err = a.SendLabeled(t.Context(), x, fmt.Sprint(i))
				_ = x.Close()
				if err != nil {
					return err
				}
			}
			err := a.WaitReceived(t.Context())
			_ = a.Close()
			return err
		}()
	}()
	i := 0
	take := func(stop int) {
		for got, err := range b.All(t.Context(), d) {
			if err != nil {
				t.Fatal(err)
			}
			if v, err := core.Values[int64](got.Tensor); err != nil || v[0] != int64(i) || got.Label != fmt.Sprint(i) {
				t.Errorf("tensor %d is %v, %q: %v", i, v, got.Label, err)
			}
			_ = got.Tensor.Close()
			if i++; i == stop {
				break
			}
		}
	}
	take(2)
	take(-1)
	if err := <-sent; err != nil || i != 5 {
		t.Errorf("%d tensors came: %v", i, err)
	}

	_, b = connect(t, Options{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	failed := func(c *Conn, ctx context.Context, d core.Device) (n int, last error) {
		for got, err := range c.All(ctx, d) {
			if n, last = n+1, err; got.Tensor != nil {
				t.Error("an error comes with a tensor")
			}
		}
		return n, last
	}
	if n, err := failed(b, ended, d); n != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %d elements, %v", n, err)
	}
	if n, err := failed(nil, t.Context(), d); n != 1 || !errors.Is(err, core.ErrInvalid) {
		t.Errorf("no connection: %d elements, %v", n, err)
	}
	_ = b.Close()
	if n, err := failed(b, t.Context(), d); n != 1 || !errors.As(err, new(*ConnError)) {
		t.Errorf("a connection that this side has closed: %d elements, %v", n, err)
	}
}
