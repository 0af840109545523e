package flight

import (
	"context"
	"crypto/tls"
	"math"
	"net"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
)

// Defaults and bounds of the options.
const (
	defaultBatch   = 512 << 10
	defaultMessage = 512 << 20
	defaultTensor  = 64 << 30
	minBatch       = 64
	// defaultWindow bounds what one call has under way in memory. With 8 MiB a copy on one machine makes a third fewer
	// system calls and wakes a third fewer threads; internal/speed compares the speeds.
	defaultWindow = 1 << 20
	minWindow     = 64 << 10
	// readBuffer and writeBuffer are how many bytes a system call reads or writes. interop/DESIGN.md has what others cost.
	readBuffer  = 256 << 10
	writeBuffer = 512 << 10
	// maxIdle is how long the server keeps a connection without calls.
	maxIdle = 10 * time.Minute
	// patience is how long a peer may not answer, or may take nothing of what the server sends.
	patience = 20 * time.Second
	// maxRequest bounds a message to a server that takes no tensors. The largest one has a ticket.
	maxRequest = 64 << 10
	// envelope is what a message may have besides the elements.
	envelope = 2 * maxHeader
	// largestMessage bounds the option Message, since gRPC counts in int32.
	largestMessage = math.MaxInt32 - envelope
)

// ServerOptions controls a server.
type ServerOptions struct {
	// TLS has the certificate of the server. It is needed unless Insecure is set. The server does not change it.
	TLS *tls.Config
	// Insecure allows connections without TLS, from the same machine only: the listener must be a Unix socket or have a
	// loopback address.
	Insecure bool
	// Tokens, if not empty, are the bearer tokens of which a call must have one.
	Tokens []string
	// Device is where tensors are made that clients put. The caller keeps it open until the server is closed. If it is
	// nil, the server refuses to take tensors.
	Device core.Device
	// Accept, if not nil, is called before memory is allocated for a tensor that a client puts, and refuses it by an
	// error, whose text the client gets. It may be called by several goroutines at once. ctx ends with the call of the client.
	Accept func(ctx context.Context, x Info) error
	// Limits bound what clients can use.
	Limits Limits
	// BatchBytes is the size of the batches that the server sends, at least 64; 0 means 512 KiB. A batch has at least one
	// row of the tensor, also if that is larger.
	BatchBytes int64
	// Window is how many bytes may be under way to the server for one call, at least 64 KiB; 0 means 1 MiB. In a network
	// with a long delay, more is faster: the bytes a second that it carries, times the seconds of a round trip.
	Window int32
}

// Limits bound what the clients of a server can use. 0 in a field selects its default.
type Limits struct {
	Connections int           // that are open; default 256. See Security in the package's documentation for one more
	Tensors     int           // that clients have put; default 1024
	TensorBytes int64         // of one tensor that is put; default 64 GiB
	Bytes       int64         // of all tensors that were put and are being put; default 64 GiB
	Message     int64         // bytes of one batch that arrives, and of one row that is sent; default 512 MiB, at most 2045 MiB
	Calls       int           // at the same time, until their work has ended; default 64
	Time        time.Duration // of a call; default 10 minutes. A client that stops reading or writing loses its call then
}

// withDefaults returns l with the defaults. It fails with ErrInvalid.
func (l Limits) withDefaults() (Limits, error) {
	if l.Connections < 0 || l.Tensors < 0 || l.TensorBytes < 0 || l.Bytes < 0 || l.Message < 0 || l.Message > largestMessage || l.Calls < 0 || l.Time < 0 {
		return l, fail(core.ErrInvalid, "NewServer", "Limits are %+v: no field may be negative, and Message may be at most %d", l, largestMessage)
	}
	setDefault(&l.Connections, 256)
	setDefault(&l.Tensors, 1024)
	setDefault(&l.TensorBytes, defaultTensor)
	setDefault(&l.Bytes, defaultTensor)
	setDefault(&l.Message, defaultMessage)
	setDefault(&l.Calls, 64)
	setDefault(&l.Time, 10*time.Minute)
	return l, nil
}

// setDefault replaces 0.
func setDefault[T int | int32 | int64 | time.Duration](x *T, value T) {
	if *x == 0 {
		*x = value
	}
}

// check completes the options. It fails with ErrInvalid.
func (o *ServerOptions) check() (err error) {
	const call = "NewServer"
	if o.Limits, err = o.Limits.withDefaults(); err != nil {
		return err
	}
	if err := checkTLS(call, o.TLS, o.Insecure); err != nil {
		return err
	}
	if c := o.TLS; c != nil && len(c.Certificates) == 0 && c.GetCertificate == nil && c.GetConfigForClient == nil {
		return fail(core.ErrInvalid, call, "TLS has no certificate")
	}
	for i, token := range o.Tokens {
		if token == "" {
			return fail(core.ErrInvalid, call, "Tokens[%d] is empty", i)
		}
	}
	return checkSizes(call, &o.BatchBytes, &o.Window)
}

// ClientOptions controls a client.
type ClientOptions struct {
	// TLS says which servers are trusted. It is needed unless Insecure is set; new(tls.Config) trusts the certificates
	// of the system. The client does not change it.
	TLS *tls.Config
	// Insecure allows a connection without TLS, to the same machine only: the address must be a Unix socket
	// ("unix:/path"), localhost, or a loopback address.
	Insecure bool
	// Token, if not empty, is sent as bearer token with each call.
	Token string
	// TensorBytes bounds a tensor that Get receives; 0 means 64 GiB.
	TensorBytes int64
	// Message bounds the bytes of one batch that arrives, and of one row that is sent; 0 means 512 MiB, at most 2045 MiB
	// are possible.
	Message int64
	// BatchBytes is the size of the batches that Put sends, at least 64; 0 means 512 KiB. A batch has at least one row of the
	// tensor, also if that is larger.
	BatchBytes int64
	// Window is how many bytes may be under way to the client for one call, at least 64 KiB; 0 means 1 MiB. See
	// ServerOptions.
	Window int32
}

// check completes the options. It fails with ErrInvalid.
func (o *ClientOptions) check(address string) error {
	const call = "NewClient"
	if o.TensorBytes < 0 || o.Message < 0 || o.Message > largestMessage {
		return fail(core.ErrInvalid, call, "TensorBytes is %d and Message is %d: neither may be negative, and Message may be at most %d", o.TensorBytes, o.Message, largestMessage)
	}
	setDefault(&o.TensorBytes, defaultTensor)
	setDefault(&o.Message, defaultMessage)
	if err := checkTLS(call, o.TLS, o.Insecure); err != nil {
		return err
	}
	if o.Insecure && !isLocal(address) {
		return fail(core.ErrInvalid, call, "%.100q is not an address of this machine, such as 127.0.0.1:8815: set TLS to connect to others", address)
	}
	return checkSizes(call, &o.BatchBytes, &o.Window)
}

func checkTLS(call string, c *tls.Config, insecure bool) error {
	switch {
	case c == nil && !insecure:
		return fail(core.ErrInvalid, call, "the options have neither TLS nor Insecure")
	case c != nil && insecure:
		return fail(core.ErrInvalid, call, "the options have both TLS and Insecure")
	}
	return nil
}

func checkSizes(call string, batch *int64, window *int32) error {
	setDefault(batch, defaultBatch)
	setDefault(window, defaultWindow)
	if *batch < minBatch || *batch > largestMessage || *window < minWindow || *window > math.MaxInt32/2 {
		return fail(core.ErrInvalid, call, "BatchBytes is %d and Window is %d: %d to %d and %d to %d are possible", *batch, *window, minBatch, largestMessage, minWindow, math.MaxInt32/2)
	}
	return nil
}

// isLocal reports whether an address is on this machine.
func isLocal(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// listensLocally reports whether only this machine can connect to an address.
func listensLocally(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// serverOptions are the options of gRPC for a server.
func (o *ServerOptions) serverOptions() []grpc.ServerOption {
	// gRPC has one limit for all calls. A client that may put tensors gains nothing by a large message in another call.
	message := int(o.Limits.Message + envelope)
	if o.Device == nil {
		message = maxRequest
	}
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(message),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.StaticStreamWindowSize(o.Window),
		grpc.StaticConnWindowSize(2 * o.Window), // one call that nobody reads does not stop the others
		grpc.ReadBufferSize(readBuffer),
		grpc.WriteBufferSize(writeBuffer),
		experimental.BufferPool(new(framePool)),
		grpc.MaxConcurrentStreams(uint32(min(o.Limits.Calls, math.MaxInt32))),
		grpc.MaxHeaderListSize(64 << 10),
		grpc.ConnectionTimeout(20 * time.Second),
		grpc.WaitForHandlers(true),
	}
}

// dialOptions are the options of gRPC for a client.
func (o *ClientOptions) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(newCodec()),
			grpc.MaxCallRecvMsgSize(int(o.Message+envelope)),
			grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithStaticStreamWindowSize(o.Window),
		grpc.WithStaticConnWindowSize(2 * o.Window),
		grpc.WithReadBufferSize(readBuffer),
		grpc.WithWriteBufferSize(writeBuffer),
		experimental.WithBufferPool(new(framePool)),
		grpc.WithDisableRetry(), // a retry would send a tensor from memory that gRPC keeps
		grpc.WithNoProxy(),
	}
}
