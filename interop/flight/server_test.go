package flight

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"google.golang.org/protobuf/proto"
)

func TestOptions(t *testing.T) {
	for what, o := range map[string]ServerOptions{
		"neither TLS nor Insecure": {},
		"both":                     {TLS: new(tls.Config), Insecure: true},
		"no certificate":           {TLS: new(tls.Config)},
		"an empty token":           {Insecure: true, Tokens: []string{""}},
		"a negative limit":         {Insecure: true, Limits: Limits{Bytes: -1}},
		"negative connections":     {Insecure: true, Limits: Limits{Connections: -1}},
		"a huge message":           {Insecure: true, Limits: Limits{Message: 1 << 40}},
		"small batches":            {Insecure: true, BatchBytes: 63},
		"a small window":           {Insecure: true, Window: 1},
	} {
		_, err := NewServer(o)
		coretest.WantError(t, err, core.ErrInvalid, what)
	}
	for what, c := range map[string]struct {
		address string
		o       ClientOptions
	}{
		"neither TLS nor Insecure": {"127.0.0.1:1", ClientOptions{}},
		"another machine":          {"example.org:1", ClientOptions{Insecure: true}},
		"no port":                  {"127.0.0.1", ClientOptions{Insecure: true}},
		"a negative limit":         {"127.0.0.1:1", ClientOptions{Insecure: true, TensorBytes: -1}},
		"small batches":            {"127.0.0.1:1", ClientOptions{Insecure: true, BatchBytes: 1}},
	} {
		_, err := NewClient(c.address, c.o)
		coretest.WantError(t, err, core.ErrInvalid, what)
	}
	s, err := NewServer(ServerOptions{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	coretest.WantError(t, s.Serve(l), core.ErrInvalid, "all addresses without TLS")
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if l, err = net.Listen("unix", filepath.Join(t.TempDir(), "s")); err != nil {
		t.Fatal(err)
	}
	coretest.WantError(t, s.Serve(l), core.ErrClosed, "a closed server")
	coretest.WantError(t, s.Offer("x", patterned(t, core.TypeInt8, 1)), core.ErrClosed, "a closed server")
	_, err = s.Tensor("x")
	coretest.WantError(t, err, core.ErrClosed, "a closed server")
	coretest.WantError(t, s.Withdraw("x"), core.ErrClosed, "a closed server")
}

// With TLS, a call needs a token that the server knows, and a server that the client trusts.
func TestTokens(t *testing.T) {
	pair, roots := certificate(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	d := openCPU(t)
	_, address := serve(t, ServerOptions{TLS: &tls.Config{Certificates: []tls.Certificate{pair}}, Tokens: []string{"secret"}, Device: d})
	x := patterned(t, core.TypeInt8, 3)
	for token, ok := range map[string]bool{"secret": true, "": false, "secret2": false, "secre": false} {
		c := connect(t, address, ClientOptions{TLS: &tls.Config{RootCAs: pool}, Token: token})
		if _, err := c.List(t.Context()); (err == nil) != ok {
			t.Errorf("token %q: %v", token, err)
		}
		if _, err := c.Put(t.Context(), "x", x); (err == nil) != ok {
			t.Errorf("token %q: %v", token, err)
		}
	}
	_, err := connect(t, address, ClientOptions{TLS: new(tls.Config), Token: "secret"}).List(t.Context())
	coretest.WantError(t, err, core.ErrClosed, "a certificate that nobody trusts")
	_, err = connect(t, address, ClientOptions{Insecure: true}).List(t.Context())
	coretest.WantError(t, err, core.ErrClosed, "a client without TLS")
}

func TestLimitsOfTheServer(t *testing.T) {
	refusal := errors.New("not today")
	d := openCPU(t)
	s, address := serve(t, ServerOptions{
		Device: d, Limits: Limits{Tensors: 3, TensorBytes: 100, Bytes: 150},
		Accept: func(_ context.Context, x Info) error {
			if x.Name == "refused" {
				return refusal
			}
			return nil
		},
	})
	c := connect(t, address, ClientOptions{})
	put := func(name string, n int64) error {
		_, err := c.Put(t.Context(), name, patterned(t, core.TypeInt8, n))
		return err
	}
	coretest.WantError(t, put("x", 101), core.ErrOutOfMemory, "a large tensor")
	if err := put("refused", 1); err == nil {
		t.Error("Accept was not asked")
	}
	if err := put("a", 100); err != nil {
		t.Fatal(err)
	}
	coretest.WantError(t, put("b", 51), core.ErrOutOfMemory, "more bytes together")
	for _, name := range []string{"b", "c"} {
		if err := put(name, 1); err != nil {
			t.Fatal(err)
		}
	}
	coretest.WantError(t, put("d", 1), core.ErrOutOfMemory, "a fourth tensor")
	if err := c.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := put("d", 100); err != nil {
		t.Fatal(err)
	}
	if s.bytes != 102 || s.put != 3 {
		t.Errorf("%d bytes of %d tensors", s.bytes, s.put)
	}
	_, address = serve(t, ServerOptions{})
	_, err := connect(t, address, ClientOptions{}).Put(t.Context(), "x", patterned(t, core.TypeInt8, 1))
	coretest.WantError(t, err, core.ErrNotSupported, "a server that takes nothing")
}

// startPut sends the schema and the first batch of a tensor with two. It returns when the server has allocated memory.
func startPut(ctx context.Context, t *testing.T, c *Client, accepted <-chan struct{}) flight.FlightService_DoPutClient {
	t.Helper()
	frames := sentFrames(t, patterned(t, core.TypeInt8, 200), 100)
	to, err := proto.Marshal(descriptor("x"))
	if err != nil {
		t.Fatal(err)
	}
	frames[0].descriptor = to
	stream, err := c.flight.DoPut(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames[:2] {
		if err := stream.SendMsg(f); err != nil && !errors.Is(err, io.EOF) { // the end of the call is the caller's to look for
			t.Fatal(err)
		}
	}
	select {
	case <-accepted:
	case <-stream.Context().Done(): // the call was over before
	}
	return stream
}

// What a client has begun to put is gone when the client is: the name can be used again, and no bytes are reserved.
func TestAClientThatDies(t *testing.T) {
	d, accepted := openCPU(t), make(chan struct{}, 10)
	s, address := serve(t, ServerOptions{Device: d, Limits: Limits{Bytes: 200, Tensors: 1}, Accept: func(context.Context, Info) error {
		accepted <- struct{}{}
		return nil
	}})
	for _, how := range []string{"cancels", "closes the connection", "ends early"} {
		ctx, cancel := context.WithCancel(t.Context())
		c := connect(t, address, ClientOptions{})
		stream := startPut(ctx, t, c, accepted)
		switch how {
		case "cancels":
			cancel()
		case "closes the connection":
			_ = c.Close()
		default:
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
		}
		if err := stream.RecvMsg(new(flight.PutResult)); err == nil {
			t.Errorf("a client that %s: the server has half a tensor", how)
		}
		for { // the server notices it when it wants to
			s.mu.Lock()
			gone := len(s.entries) == 0 && s.bytes == 0 && s.put == 0
			s.mu.Unlock()
			if gone {
				break
			}
			time.Sleep(time.Millisecond)
		}
		cancel()
	}
	if _, err := connect(t, address, ClientOptions{}).Put(t.Context(), "x", patterned(t, core.TypeInt8, 200)); err != nil {
		t.Fatal(err)
	}
}

// A client that stops reading or writing loses its call when the time is over, and others go on.
func TestAClientThatStops(t *testing.T) {
	d, accepted := openCPU(t), make(chan struct{}, 10)
	s, address := serve(t, ServerOptions{Device: d, Limits: Limits{Time: 50 * time.Millisecond}, Accept: func(context.Context, Info) error {
		accepted <- struct{}{}
		return nil
	}})
	c := connect(t, address, ClientOptions{})
	stream := startPut(t.Context(), t, c, accepted)
	err := fromStatus(t.Context(), "Put", stream.RecvMsg(new(flight.PutResult)))
	coretest.WantError(t, err, context.DeadlineExceeded, "a client that stops writing")

	if err := s.Offer("large", patterned(t, core.TypeInt8, 8<<20)); err != nil {
		t.Fatal(err)
	}
	get, err := c.flight.DoGet(t.Context(), &flight.Ticket{Ticket: ticket{Name: "large"}.bytes()})
	if err != nil {
		t.Fatal(err)
	}
	var f frame
	err = get.RecvMsg(&f) // the call has begun, or has ended
	f.free()
	waitFor(t, 0, s.calls.Load) // it ends, although nobody reads
	for err == nil {
		err = get.RecvMsg(&f)
		f.free()
	}
	err = fromStatus(t.Context(), "Get", err)
	coretest.WantError(t, err, context.DeadlineExceeded, "a client that stops reading")
}

// Close ends calls that are running, and nothing stays open.
func TestCloseDuringCalls(t *testing.T) {
	d := openCPU(t)
	s, address := serve(t, ServerOptions{Device: d})
	if err := s.Offer("x", patterned(t, core.TypeInt8, 1<<20)); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for i := range 4 {
		c := connect(t, address, ClientOptions{BatchBytes: 64 << 10})
		x := patterned(t, core.TypeInt8, 1<<20)
		running.Go(func() {
			for n := 0; ; n++ {
				got, _, err := c.Get(context.Background(), "x", d)
				if err != nil {
					return
				}
				_ = got.Close()
				name := string(rune('a' + i))
				if _, err := c.Put(context.Background(), name, x); err != nil {
					return
				}
				if err := c.Delete(context.Background(), name); err != nil {
					return
				}
			}
		})
	}
	waitUntil(t, func() string {
		if s.calls.Load() == 0 {
			return "no call runs"
		}
		return ""
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	running.Wait()
}

// Calls of a client that is closed fail as the calls of all that is closed.
func TestAClosedClient(t *testing.T) {
	d := openCPU(t)
	s, address := serve(t, ServerOptions{Device: d})
	c := connect(t, address, ClientOptions{})
	running := begin(t.Context(), t, c, "DoPut")
	waitFor(t, 1, s.calls.Load)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	ended := fromStatus(t.Context(), "Put", running.RecvMsg(new(flight.PutResult)))
	_, putting := c.Put(t.Context(), "x", patterned(t, core.TypeInt8, 3))
	_, _, getting := c.Get(t.Context(), "x", d)
	_, listing := c.List(t.Context())
	for what, err := range map[string]error{"a running call": ended, "Put": putting, "Get": getting, "List": listing, "Delete": c.Delete(t.Context(), "x")} {
		coretest.WantError(t, err, core.ErrClosed, what)
		if errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, but its context was not canceled", what, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.List(ctx); err != context.Canceled {
		t.Error(err)
	}
}

// When the device has no memory, or fails, the error says so and nothing is left.
func TestNoMemory(t *testing.T) {
	d := openRemote(t)
	s, address := serve(t, ServerOptions{Device: d})
	c := connect(t, address, ClientOptions{})
	x := patterned(t, core.TypeInt8, 1000)
	pool, ok := core.As[core.PoolController](d)
	if !ok {
		t.Fatal("the device has no pool")
	}
	if err := s.Offer("x", x); err != nil {
		t.Fatal(err)
	}
	pool.SetPoolLimit(100)
	_, err := c.Put(t.Context(), "y", x)
	coretest.WantError(t, err, core.ErrOutOfMemory, "putting")
	_, _, err = c.Get(t.Context(), "x", d)
	coretest.WantError(t, err, core.ErrOutOfMemory, "getting")
	if len(s.Names()) != 1 || s.bytes != 0 {
		t.Errorf("%v, %d bytes", s.Names(), s.bytes)
	}
}
