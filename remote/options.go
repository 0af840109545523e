package remote

import (
	"crypto/tls"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Options controls connections. Either TLS or Token must be set, or both, unless Insecure is.
type Options struct {
	// TLS has the certificate of this process, and the authorities that certificates of peers come from: RootCAs for
	// Dial, ClientCAs for Listen, which needs them unless there is a Token. Both sides must present a certificate. The version is 1.3
	// in any case. GetConfigForClient is not possible for Listen.
	TLS *tls.Config
	// Token is a secret that both sides know, of at least 16 random bytes. Each side proves to the other one that it
	// knows the token, which is not sent. Without TLS, a certificate is made up for the connection, and the token alone
	// authenticates both sides.
	Token []byte
	// Insecure makes connections without encryption and without authentication. Every process that reaches the address
	// can then send, receive, and end this process by malformed addresses of UCX. Only addresses of the loopback
	// interface are possible.
	Insecure bool
	// KeepAlive is how long a peer may show no sign of life before the connection ends; default 10 s, at least 100 ms.
	KeepAlive time.Duration
	// Poll is how long a call looks for messages of the peer again and again before it lets the system wake it. It takes
	// a processor for that time, and saves the microseconds of waking up. Default 0.
	Poll time.Duration
	// Limits bound what the peer may do. 0 in a field selects its default.
	Limits Limits
	// Tracer, if not nil, is told when a transfer that this process asks for begins and ends. For Gather, it is that of its
	// own options, also if each source has a connection.
	Tracer Tracer
}

// Limits bound what a peer may ask of a process. Each side tells its limits to the other one.
type Limits struct {
	Tensors  int   // that the peer has sent, and that Receive has not returned; default 64, at most 65536
	Bytes    int64 // of the elements of one tensor; default 64 GiB
	Requests int   // of Fetch, Put and Checksum that are served, and that calls of this side make, at the same time; as many more wait; default 16, at most 1024
}

const (
	minToken        = 16
	maxToken        = 1024
	defaultAlive    = 10 * time.Second
	minAlive        = 100 * time.Millisecond
	maxAlive        = time.Hour
	maxTensors      = 1 << 16
	maxRequests     = 1 << 10
	handshakeWithin = 30 * time.Second
)

// checkClients fails with ErrInvalid if TLS does not say which clients are those of the program.
func (o *Options) checkClients() error {
	switch {
	case o.TLS == nil:
		return nil
	case o.TLS.GetConfigForClient != nil:
		return invalid("Listen", "GetConfigForClient of the configuration of TLS could accept clients without a certificate: leave it out")
	case o.TLS.ClientCAs == nil && len(o.Token) == 0:
		return invalid("Listen", "the configuration of TLS has no ClientCAs, so that everybody with a certificate of one of the system's authorities could connect: set ClientCAs, or a token")
	}
	return nil
}

// check completes the options. It fails with ErrInvalid.
func (o *Options) check() error {
	wrong := func(format string, args ...any) error {
		return core.Errorf(core.ErrInvalid, "remote", "Options", format, args...)
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = defaultAlive
	}
	l := &o.Limits
	if l.Tensors == 0 {
		l.Tensors = 64
	}
	if l.Bytes == 0 {
		l.Bytes = 64 << 30
	}
	if l.Requests == 0 {
		l.Requests = 16
	}
	switch secure := o.TLS != nil || len(o.Token) > 0; {
	case o.Insecure && secure:
		return wrong("an insecure connection excludes a token and certificates: choose one")
	case !o.Insecure && !secure:
		return wrong("there is neither a token nor a certificate: a connection needs one of them, or must be insecure, on the loopback interface only")
	case len(o.Token) > 0 && len(o.Token) < minToken || len(o.Token) > maxToken:
		return wrong("the token has %d bytes: %d to %d are possible", len(o.Token), minToken, maxToken)
	case o.KeepAlive < minAlive || o.KeepAlive > maxAlive:
		return wrong("the keep-alive is %v: %v to %v are possible", o.KeepAlive, minAlive, maxAlive)
	case o.Poll < 0:
		return wrong("the time to poll is %v, and cannot be negative", o.Poll)
	case l.Tensors < 0 || l.Tensors > maxTensors || l.Bytes < 0 || l.Requests < 0 || l.Requests > maxRequests:
		return wrong("the limits are %d tensors, %d bytes and %d requests: none may be negative, and at most %d tensors and %d requests are possible", l.Tensors, l.Bytes, l.Requests, maxTensors, maxRequests)
	}
	if o.TLS == nil {
		return nil
	}
	o.TLS = o.TLS.Clone() // the program may change its own
	switch t := o.TLS; {
	case len(t.Certificates) == 0 && t.GetCertificate == nil && t.GetClientCertificate == nil:
		return wrong("there is no certificate of this process for TLS: both sides must present one")
	case t.InsecureSkipVerify && len(o.Token) == 0 && t.VerifyConnection == nil && t.VerifyPeerCertificate == nil:
		return wrong("TLS with InsecureSkipVerify accepts every listener: leave it out, or use a token too")
	}
	return nil
}
