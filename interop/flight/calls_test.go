package flight

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
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

// waitFor waits until there are n calls, connections or whatever load counts.
func waitFor(t *testing.T, n int64, load func() int64) {
	t.Helper()
	waitUntil(t, func() string {
		if got := load(); got != n {
			return fmt.Sprintf("%d are there, not %d", got, n)
		}
		return ""
	})
}

// waitUntil waits until missing says that nothing is, and fails the test with what it said after a minute.
func waitUntil(t *testing.T, missing func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for what := missing(); what != ""; what = missing() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal(what)
		}
	}
}

// count returns how many connections a server has.
func (s *connections) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.open)
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
		waitFor(t, 1, s.calls.Load)
		c := connect(t, address, ClientOptions{})
		_, err := c.List(t.Context())
		coretest.WantError(t, err, core.ErrOutOfMemory, "a second call")
		cancel()
		waitFor(t, 0, s.calls.Load)
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

// A connection above the limit takes the place of one without calls. One that has ended, in whatever state, counts no more.
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
				waitFor(t, int64(min(len(open), 2)), s.connections.count)
			}
			_, _ = io.Copy(io.Discard, open[0]) // returns when the server has closed it
			for _, c := range open {
				_ = c.Close()
			}
			waitFor(t, 0, s.connections.count)
		}
	}
}

// When the server has no place left, connections whose calls were refused make room, one whose call has just ended does
// not, and one with a call never does.
func TestWhoMakesRoom(t *testing.T) {
	pair, pem := certificate(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	for _, c := range []*tls.Config{nil, {Certificates: []tls.Certificate{pair}}} {
		s, address := serve(t, ServerOptions{TLS: c, Device: openCPU(t), Tokens: []string{"secret"}, Limits: Limits{Connections: 3}})
		dial := func(token string) *Client {
			o := ClientOptions{Token: token}
			if c != nil {
				o.TLS = &tls.Config{RootCAs: roots}
			}
			return connect(t, address, o)
		}
		for range 3 {
			_, err := dial("wrong").List(t.Context())
			coretest.WantError(t, err, core.ErrInvalid, "without a token")
		}
		var known []*Client
		for range 3 {
			x := dial("secret")
			if _, err := x.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			known = append(known, x)
		}
		waitFor(t, 3, s.connections.count)
		last := dial("secret")
		_, err := last.List(t.Context())
		coretest.WantError(t, err, core.ErrClosed, "after three that have just called")

		ctx, cancel := context.WithCancel(t.Context())
		begin(ctx, t, known[0], "DoPut")
		waitFor(t, 1, s.calls.Load)
		s.connections.age()
		waitUntil(t, func() string { // the client waits before it connects again
			if _, err := last.List(t.Context()); err != nil {
				return err.Error()
			}
			return ""
		})
		s.connections.mu.Lock()
		idle, running := s.connections.idle.Len(), s.connections.open-s.connections.idle.Len()-s.connections.strangers.Len()
		s.connections.mu.Unlock()
		if running != 1 || idle > 2 {
			t.Errorf("%d connections have calls, and %d had some", running, idle)
		}
		cancel()
		waitFor(t, 0, s.calls.Load)
	}
	s, address := serve(t, ServerOptions{Device: openCPU(t), Limits: Limits{Connections: 1}})
	first, second := connect(t, address, ClientOptions{}), connect(t, address, ClientOptions{})
	begin(t.Context(), t, first, "DoPut")
	waitFor(t, 1, s.calls.Load)
	_, err := second.List(t.Context())
	coretest.WantError(t, err, core.ErrClosed, "beside a connection with a call")
	_ = first.Close()
	waitUntil(t, func() string {
		if _, err := second.List(t.Context()); err != nil {
			return fmt.Sprintf("%v; %d connections are open", err, s.connections.count())
		}
		return ""
	})
}

// age makes connections whose calls have ended wait for long.
func (s *connections) age() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.idle.Front(); e != nil; e = e.Next() {
		e.Value.(*counted).ended = time.Time{}
	}
}
