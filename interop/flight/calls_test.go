package flight

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	gen "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// begin begins a call and sends no message.
func begin(ctx context.Context, t *testing.T, c *Client, method string) grpc.ClientStream {
	t.Helper()
	s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+gen.FlightService_ServiceDesc.ServiceName+"/"+method)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// waitFor waits until a number of calls or connections is there.
func waitFor(n int64, load func() int64) {
	for load() != n {
		time.Sleep(time.Millisecond)
	}
}

// A call without a token is refused before its message arrives, whatever it calls.
func TestCallsWithoutAToken(t *testing.T) {
	_, address := serve(t, ServerOptions{Tokens: []string{"secret"}})
	c := connect(t, address, ClientOptions{Token: "wrong"})
	var methods []string
	for _, m := range gen.FlightService_ServiceDesc.Methods {
		methods = append(methods, m.MethodName)
	}
	for _, m := range gen.FlightService_ServiceDesc.Streams {
		methods = append(methods, m.StreamName)
	}
	for _, m := range methods {
		if err := begin(t.Context(), t, c, m).RecvMsg(new(flight.Empty)); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: %v", m, err)
		}
	}
}

// A call counts before its message arrives, and does not wait for it longer than the limit.
func TestCallsWithoutAMessage(t *testing.T) {
	for _, method := range []string{"GetFlightInfo", "GetSchema", "DoGet"} {
		s, address := serve(t, ServerOptions{Limits: Limits{Calls: 1}})
		ctx, cancel := context.WithCancel(t.Context())
		begin(ctx, t, connect(t, address, ClientOptions{}), method)
		waitFor(1, s.calls.Load)
		c := connect(t, address, ClientOptions{})
		_, err := c.List(t.Context())
		coretest.WantError(t, err, core.ErrOutOfMemory, "a second call")
		cancel()
		waitFor(0, s.calls.Load)
		if _, err := c.List(t.Context()); err != nil {
			t.Error(err)
		}
		_, address = serve(t, ServerOptions{Limits: Limits{Time: 50 * time.Millisecond}})
		err = begin(t.Context(), t, connect(t, address, ClientOptions{}), method).RecvMsg(new(flight.Empty))
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// A server that takes no tensors takes no large messages.
func TestLargeRequests(t *testing.T) {
	large := &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: make([]byte, maxRequest)}
	for device, want := range map[core.Device]codes.Code{nil: codes.ResourceExhausted, openCPU(t): codes.InvalidArgument} {
		_, address := serve(t, ServerOptions{Device: device})
		c := connect(t, address, ClientOptions{})
		if _, err := c.flight.GetFlightInfo(t.Context(), large); status.Code(err) != want {
			t.Errorf("device %v: %v", device, err)
		}
	}
}

// streamOf is a stream of which only the context is used.
type streamOf struct {
	grpc.ServerStream
	ctx context.Context
}

func (s streamOf) Context() context.Context { return s.ctx }

// A call counts as long as its work goes on, also if its client has ended it.
func TestWorkThatOutlastsItsCall(t *testing.T) {
	s, err := NewServer(ServerOptions{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	release := make(chan struct{})
	err = s.call(nil, streamOf{ctx: ctx}, nil, func(any, grpc.ServerStream) error {
		<-release
		return nil
	})
	if status.Code(err) != codes.Canceled || s.calls.Load() != 1 {
		t.Errorf("%v; %d calls count", err, s.calls.Load())
	}
	close(release)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := s.calls.Load(); n != 0 {
		t.Errorf("%d calls count", n)
	}
}

// A connection above the limit is closed at once. One that has ended, in whatever state, counts no more.
func TestConnections(t *testing.T) {
	pair, _ := certificate(t)
	for _, c := range []*tls.Config{nil, {Certificates: []tls.Certificate{pair}}} {
		s, address := serve(t, ServerOptions{TLS: c, Limits: Limits{Connections: 2}})
		for range 2 {
			var open []net.Conn
			for range 3 {
				c, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, c)
				waitFor(int64(min(len(open), 2)), s.connections.Load)
			}
			_, _ = io.Copy(io.Discard, open[2]) // returns when the server has closed it
			for _, c := range open {
				_ = c.Close()
			}
			waitFor(0, s.connections.Load)
		}
	}
	s, address := serve(t, ServerOptions{Limits: Limits{Connections: 1}})
	first, second := connect(t, address, ClientOptions{}), connect(t, address, ClientOptions{})
	if _, err := first.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := second.List(t.Context())
	coretest.WantError(t, err, core.ErrClosed, "a second client")
	_ = first.Close()
	waitFor(0, s.connections.Load)
	for err != nil { // the client waits before it connects again
		_, err = second.List(t.Context())
		time.Sleep(time.Millisecond)
	}
}
