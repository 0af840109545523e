package flight

import (
	"context"
	"net"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// openCPU opens the device of the host for a test.
func openCPU(t testing.TB) core.Device {
	t.Helper()
	d, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// openRemote opens a device whose memory the host cannot access.
func openRemote(t testing.TB) core.Device {
	return coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Log: t.Logf})
}

// serve starts a server for a test.
func serve(t testing.TB, o ServerOptions) (s *Server, address string) {
	t.Helper()
	if o.TLS == nil {
		o.Insecure = true
	}
	s, err := NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, l.Addr().String()
}

// connect makes a client for a test.
func connect(t testing.TB, address string, o ClientOptions) *Client {
	t.Helper()
	if o.TLS == nil {
		o.Insecure = true
	}
	c, err := NewClient(address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// patterned returns a tensor with arbitrary bits.
func patterned(t testing.TB, dtype core.DType, shape ...int64) *core.Tensor {
	t.Helper()
	n := sizeOf(dtype)
	for _, extent := range shape {
		n *= extent
	}
	return coretest.Keep(t)(tensorOn(coretest.Pattern(int(n), 1), dtype, shape))
}

// onHost returns the elements of a tensor in memory of the host.
func onHost(t testing.TB, x *core.Tensor) *core.Tensor {
	t.Helper()
	host := coretest.Keep(t)(tensorOn(make([]byte, x.NumBytes()), x.DType(), x.Shape()))
	if err := core.Convert(context.Background(), host, x); err != nil {
		t.Fatal(err)
	}
	return host
}

// wantSame fails the test unless two tensors have the same type, shape and bits.
func wantSame(t testing.TB, got, want *core.Tensor) {
	t.Helper()
	same, err := core.EqualBits(context.Background(), onHost(t, got), onHost(t, want))
	if err != nil || !same {
		t.Errorf("got %v, want %v: %v", got, want, err)
	}
}
