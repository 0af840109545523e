package flight

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

var openServers = live.NewCounter("flight.Server")

// Server offers tensors. It is safe for concurrent use.
type Server struct {
	o           ServerOptions
	tokens      [][sha256.Size]byte // the sums of the tokens
	grpc        *grpc.Server
	pool        bufferPool
	connections connections
	calls       atomic.Int64   // whose work is running
	running     sync.WaitGroup // the work of calls, which may outlast them

	mu      sync.Mutex
	entries map[string]*entry
	put     int   // entries that clients have put or are putting
	bytes   int64 // of them
	closed  bool
}

// entry is a name that is in use.
type entry struct {
	t     *core.Tensor // nil while a client puts it
	put   bool         // by a client
	bytes int64        // of the budget
}

// NewServer returns a server, which the caller closes. It fails with ErrInvalid if the options are wrong.
func NewServer(o ServerOptions) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Server{o: o, entries: make(map[string]*entry), connections: connections{limit: o.Limits.Connections, patience: patience}}
	for _, token := range o.Tokens {
		s.tokens = append(s.tokens, sha256.Sum256([]byte(token)))
	}
	s.o.Tokens = nil
	options := append(o.serverOptions(),
		grpc.StreamInterceptor(s.call),
		// A client that does not answer has gone. One that sends something, but takes nothing, loses its connection in
		// counted.Write.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: patience, MaxConnectionIdle: maxIdle}))
	if o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(o.TLS.Clone())))
	}
	s.grpc = grpc.NewServer(options...)
	s.grpc.RegisterService(streamed(), &service{s: s})
	openServers.Add(1)
	return s, nil
}

// Serve answers calls until the server is closed, and then returns nil. The server owns l, and closes it, also if Serve
// fails. Serve returns ErrInvalid if l is nil, if other machines can connect to l although the server has no TLS, or if
// l fails; and ErrClosed.
func (s *Server) Serve(l net.Listener) error {
	const call = "Serve"
	if s == nil || l == nil {
		return fail(core.ErrInvalid, call, "the server or the listener is nil")
	}
	if s.o.Insecure && !listensLocally(l.Addr()) {
		_ = l.Close()
		return fail(core.ErrInvalid, call, "the server has no TLS, but other machines can connect to %v: listen on 127.0.0.1, or set TLS", l.Addr())
	}
	switch err := s.grpc.Serve(&listener{l, &s.connections}); {
	case errors.Is(err, grpc.ErrServerStopped):
		return fail(core.ErrClosed, call, "the server is closed")
	case err != nil:
		return fail(because(core.ErrInvalid, err), call, "the listener failed")
	}
	return nil
}

// Offer offers a tensor under a name. The server has a reference of its own to the memory; the caller still owns t, and
// may close it. While the server offers the tensor, its elements should not change: a client may get some of before
// and some of after a change. Offer returns ErrInvalid if t is nil or the name is not UTF-8 of 1 to 1024 bytes, ErrExists,
// ErrDType or ErrLayout if Flight cannot express the tensor, or ErrClosed.
func (s *Server) Offer(name string, t *core.Tensor) error {
	const call = "Offer"
	if s == nil || t == nil {
		return fail(core.ErrInvalid, call, "the server or the tensor is nil")
	}
	if err := checkName(call, name); err != nil {
		return err
	}
	k, err := newKind(call, t.DType(), t.Shape())
	if err != nil {
		return err
	}
	if err := k.checkRow(call, s.o.Limits.Message); err != nil {
		return err
	}
	x, err := t.Share()
	if err != nil {
		return err
	}
	s.mu.Lock()
	err = s.free(call, name)
	if err == nil {
		s.entries[name] = &entry{t: x}
	}
	s.mu.Unlock()
	if err != nil {
		_ = x.Close()
	}
	return err
}

// free returns an error if the server is closed or a name is in use. s.mu is held.
func (s *Server) free(call, name string) error {
	if s.closed {
		return fail(core.ErrClosed, call, "the server is closed")
	}
	if s.entries[name] != nil {
		return fail(core.ErrExists, call, "there is a tensor with the name %q: delete it first, or choose another name", name)
	}
	return nil
}

// Tensor returns a tensor that the server offers, also one that a client has put. The caller closes it. It returns
// ErrInvalid if there is none, or ErrClosed.
func (s *Server) Tensor(name string) (*core.Tensor, error) {
	const call = "Tensor"
	if s == nil {
		return nil, fail(core.ErrInvalid, call, "the server is nil")
	}
	return s.lookUp(call, name)
}

func (s *Server) lookUp(call, name string) (*core.Tensor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fail(core.ErrClosed, call, "the server is closed")
	}
	e := s.entries[name]
	if e == nil || e.t == nil {
		return nil, fail(because(core.ErrInvalid, errNoTensor), call, "there is no tensor with the name %.100q", name)
	}
	return e.t.Share()
}

// Names returns the names of the tensors that the server offers, in order.
func (s *Server) Names() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(func(yield func(string) bool) {
		for name, e := range maps.All(s.entries) {
			if e.t != nil && !yield(name) {
				return
			}
		}
	})
}

// Withdraw ends an offer, also of a tensor that a client has put. Calls that are reading the tensor go on. It returns
// ErrInvalid if there is none, or ErrClosed.
func (s *Server) Withdraw(name string) error {
	const call = "Withdraw"
	if s == nil {
		return fail(core.ErrInvalid, call, "the server is nil")
	}
	return s.remove(call, name, false)
}

// remove removes a tensor. onlyPut refuses one of the program.
func (s *Server) remove(call, name string, onlyPut bool) error {
	s.mu.Lock()
	e := s.entries[name]
	var err error
	switch {
	case s.closed:
		err = fail(core.ErrClosed, call, "the server is closed")
	case e == nil || e.t == nil:
		err = fail(because(core.ErrInvalid, errNoTensor), call, "there is no tensor with the name %.100q", name)
	case onlyPut && !e.put:
		err = fail(because(core.ErrInvalid, errDenied), call, "tensor %q belongs to the program of the server", name)
	default:
		s.forget(name)
	}
	s.mu.Unlock()
	if err == nil {
		err = e.t.Close()
	}
	return err
}

// forget takes a name out of use, with its part of the budget. s.mu is held. The caller closes the tensor.
func (s *Server) forget(name string) {
	e := s.entries[name]
	if e.put {
		s.put--
		s.bytes -= e.bytes
	}
	delete(s.entries, name)
}

// claim takes a name for a tensor that a client puts. The caller calls keep or disclaim.
func (s *Server) claim(call, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.free(call, name); err != nil {
		return err
	}
	if s.put >= s.o.Limits.Tensors {
		return fail(core.ErrOutOfMemory, call, "clients have put %d tensors, as many as the server takes: delete one", s.put)
	}
	s.put++
	s.entries[name] = &entry{put: true}
	return nil
}

// disclaim gives a name back that was claimed.
func (s *Server) disclaim(name string) {
	s.mu.Lock()
	s.forget(name)
	s.mu.Unlock()
}

// keep makes t the tensor of a name that was claimed. The server owns it, also after an error, which is ErrClosed. bytes
// are part of the budget already.
func (s *Server) keep(call, name string, t *core.Tensor, bytes int64) error {
	s.mu.Lock()
	closed := s.closed
	e := s.entries[name]
	e.bytes = bytes
	if closed {
		s.forget(name)
	} else {
		e.t = t
	}
	s.mu.Unlock()
	if !closed {
		return nil
	}
	_ = t.Close()
	return fail(core.ErrClosed, call, "the server is closed")
}

// reserve takes bytes from the budget, or gives them back.
func (s *Server) reserve(call string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && n > s.o.Limits.Bytes-s.bytes {
		return fail(core.ErrOutOfMemory, call, "%d bytes are needed; clients have put %d bytes, and the limit is %d: delete tensors", n, s.bytes, s.o.Limits.Bytes)
	}
	s.bytes += n
	return nil
}

// Close ends all calls and closes the listeners and the tensors. It waits for calls of Accept. Closing twice is safe.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	s.grpc.Stop()
	s.running.Wait()
	if !first {
		return nil
	}
	s.mu.Lock()
	entries := s.entries
	s.entries = nil
	s.mu.Unlock()
	for _, e := range entries {
		_ = e.t.Close() // no call is putting one any more
	}
	openServers.Add(-1)
	return nil
}

// hasToken reports whether a call has one of the tokens. The time that it takes says nothing about the tokens, not even
// about how long they are.
func (s *Server) hasToken(ctx context.Context) bool {
	headers, _ := metadata.FromIncomingContext(ctx)
	values := headers.Get("authorization")
	if len(values) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	sum, known := sha256.Sum256([]byte(token)), 0
	for i := range s.tokens {
		known |= subtle.ConstantTimeCompare(s.tokens[i][:], sum[:])
	}
	return known == 1
}

// call surrounds each call, before its first message is read.
func (s *Server) call(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if len(s.tokens) != 0 && !s.hasToken(stream.Context()) {
		return status.Error(codes.Unauthenticated, "the call has no bearer token that the server knows")
	}
	c := connectionOf(stream.Context())
	c.begin()
	if n := s.calls.Add(1); n > int64(s.o.Limits.Calls) {
		s.calls.Add(-1)
		c.end()
		return status.Errorf(codes.ResourceExhausted, "the server carries out %d calls, and takes no more: try again later", s.o.Limits.Calls)
	}
	return toStatus(s.bounded(stream, c, func(ctx context.Context) error {
		return handle(srv, withContext{stream, ctx})
	}))
}

// bounded runs the work of a call that was counted, but not longer than the limit. If the peer does not go on reading or
// writing, the work still waits for it then; the end of the call ends this wait. The call counts until its work has ended.
func (s *Server) bounded(stream grpc.ServerStream, c *counted, work func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(stream.Context(), s.o.Limits.Time)
	done := make(chan error, 1)
	s.running.Go(func() {
		defer cancel()
		err := work(ctx)
		c.end()
		s.calls.Add(-1) // before the client can know
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done: // cancel came after it
		return err
	default:
		return fail(ctx.Err(), "Serve", "the call took longer than %v, or its client has ended it", s.o.Limits.Time)
	}
}

// withContext is a stream with another context.
type withContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s withContext) Context() context.Context { return s.ctx }
