package triton

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// countingConn counts calls of Write.
type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// A request over HTTP without bytes of tensors is one write: the server wakes once.
func TestARequestIsOneWrite(t *testing.T) {
	var writes atomic.Int64
	h := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return countingConn{c, &writes}, err
	}}}
	c := dial(t, newFake(t), "http", Options{HTTP: h})
	x := coretest.Keep(t)(c.Empty(t.Context(), core.TypeInt32, []int64{1000}))
	for i := range 3 {
		before := writes.Load()
		r := infer(t, c, "identity", InferOptions{}, map[string]*core.Tensor{"IN": x})
		if n := writes.Load() - before; i > 0 && n != 1 { // the first request registers a region and asks what the model has
			t.Errorf("request %d took %d writes", i, n)
		}
		r.Close()
	}
}
