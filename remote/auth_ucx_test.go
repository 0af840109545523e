//go:build ucx && linux && cgo

package remote

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// authority makes certificates for tests.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}}
	a.certificate = a.sign(t, a.certificate, &key.PublicKey)
	return a
}

func (a *authority) sign(t *testing.T, c *x509.Certificate, key any) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, a.certificate, key, a.key)
	if err != nil {
		t.Fatal(err)
	}
	x, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// config is that of a process with a certificate of a, which trusts certificates of trusted.
func (a *authority) config(t *testing.T, trusted *authority) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, &key.PublicKey)
	pool := x509.NewCertPool()
	pool.AddCert(trusted.certificate)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{c.Raw}, PrivateKey: key}}, RootCAs: pool, ClientCAs: pool}
}

func TestAuthentication(t *testing.T) {
	d := host(t)
	one, other := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 16)
	ours, theirs := newAuthority(t), newAuthority(t)
	mutual := func(a, trusted *authority) Options { return Options{TLS: a.config(t, trusted)} }
	both := func(o Options, token []byte) Options { o.Token = token; return o }
	for name, x := range map[string]struct {
		listen, dial Options
		ok           bool
	}{
		"the same token":                  {Options{Token: one}, Options{Token: one}, true},
		"another token":                   {Options{Token: one}, Options{Token: other}, false},
		"certificates":                    {mutual(ours, ours), mutual(ours, ours), true},
		"certificates and a token":        {both(mutual(ours, ours), one), both(mutual(ours, ours), one), true},
		"certificates, another token":     {both(mutual(ours, ours), one), both(mutual(ours, ours), other), false},
		"only one side wants a token":     {both(mutual(ours, ours), one), mutual(ours, ours), false},
		"the client is of others":         {mutual(ours, ours), mutual(theirs, ours), false},
		"the server is of others":         {mutual(theirs, ours), mutual(ours, ours), false},
		"a token instead of certificates": {mutual(ours, ours), Options{Token: one}, false},
		"only one side is secure":         {Options{Token: one}, Options{Insecure: true}, false},
		"only the other side is secure":   {Options{Insecure: true}, Options{Token: one}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Listen("127.0.0.1:0", x.listen)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			a, err := Dial(t.Context(), l.Addr().String(), x.dial)
			if !x.ok {
				// With TLS 1.3 the client may find out only when it reads.
				if err == nil {
					_, _, err = a.Receive(t.Context(), d)
					_ = a.Close()
				}
				if x.dial.Insecure && !strings.Contains(err.Error(), "needs TLS or a token") || x.listen.Insecure && !strings.Contains(err.Error(), "neither TLS nor a token") {
					t.Errorf("only one side is insecure: %v", err)
				}
				if errors.Is(err, ErrInsecure) != (x.dial.Insecure || x.listen.Insecure) || strings.Contains(err.Error(), "Options") {
					t.Errorf("the cause is that only one side is insecure, or not: %v", err)
				}
				var typed *ConnError
				if !errors.As(err, &typed) || !errors.Is(err, core.ErrClosed) && !errors.Is(err, core.ErrInvalid) {
					t.Errorf("error %v", err)
				}
				if c := l.next(); c != nil {
					_ = c.Close()
					t.Error("the listener has accepted the connection")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			b, err := l.Accept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			x := row(t, 100_000, 1)
			y, _, _ := pass(t, a, b, x, d)
			wantEqual(t, x, y)
		})
	}
}

func TestWrongOptions(t *testing.T) {
	token := make([]byte, 16)
	for name, o := range map[string]Options{
		"nothing":           {},
		"short token":       {Token: token[1:]},
		"long token":        {Token: make([]byte, maxToken+1)},
		"insecure token":    {Token: token, Insecure: true},
		"no certificate":    {TLS: &tls.Config{}}, //nolint:gosec // no version is needed
		"short life":        {Token: token, KeepAlive: time.Millisecond},
		"long life":         {Token: token, KeepAlive: 2 * time.Hour},
		"negative poll":     {Token: token, Poll: -1},
		"negative tensors":  {Token: token, Limits: Limits{Tensors: -1}},
		"many tensors":      {Token: token, Limits: Limits{Tensors: 1 << 20}},
		"negative bytes":    {Token: token, Limits: Limits{Bytes: -1}},
		"negative requests": {Token: token, Limits: Limits{Requests: -1}},
	} {
		if _, err := Listen("127.0.0.1:0", o); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: Listen returned %v", name, err)
		}
		if _, err := Dial(t.Context(), "127.0.0.1:1", o); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: Dial returned %v", name, err)
		}
	}
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0", "nowhere"} {
		if _, err := Listen(address, Options{Insecure: true}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("an insecure listener at %q: %v", address, err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	if _, err := Dial(t.Context(), address, Options{Insecure: true}); !errors.Is(err, core.ErrClosed) {
		t.Errorf("nobody listens: %v", err)
	}
	for _, address := range []string{"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:-1", "127.0.0.1:7470 ", "127.0.0.1:nothing", "a:b:c"} {
		if _, err := Dial(t.Context(), address, Options{Insecure: true}); !errors.Is(err, core.ErrInvalid) || errors.Is(err, core.ErrClosed) {
			t.Errorf("%q is no address: %v", address, err)
		}
	}
}

// A listener takes certificates of the program's authorities only, and those of the system's only beside a token.
func TestCertificatesThatAListenerMustNotTrust(t *testing.T) {
	ours := newAuthority(t)
	config := func(change func(*tls.Config)) *tls.Config {
		c := ours.config(t, ours)
		change(c)
		return c
	}
	systems := config(func(c *tls.Config) { c.ClientCAs = nil })
	replaced := config(func(c *tls.Config) {
		c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: c.Certificates}, nil //nolint:gosec // the point of the test
		}
	})
	unchecked := config(func(c *tls.Config) { c.InsecureSkipVerify = true })
	token := bytes.Repeat([]byte{1}, minToken)
	for name, x := range map[string]struct {
		options Options
		ok      bool
	}{
		"of the system's authorities":             {Options{TLS: systems}, false},
		"of the system's authorities and a token": {Options{TLS: systems, Token: token}, true},
		"any, unchecked":                          {Options{TLS: unchecked}, false},
		"any, unchecked, and a token":             {Options{TLS: unchecked, Token: token}, true},
		"any, by a callback":                      {Options{TLS: replaced}, false},
		"any, by a callback, and a token":         {Options{TLS: replaced, Token: token}, false},
	} {
		l, err := Listen("127.0.0.1:0", x.options)
		if (err == nil) != x.ok || err != nil && !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		_ = l.Close()
	}
}

// hostile is a peer that says what it wants on an insecure control connection.
type hostile struct {
	net.Conn
	t testing.TB
}

// meet returns a connection to a hostile peer that has said hello, and the peer.
func meet(t testing.TB, o Options) (*hostile, chan *Conn, func()) {
	t.Helper()
	o.Insecure = true
	l, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan *Conn, 1)
	go func() {
		c, err := l.Accept(t.Context())
		if err != nil {
			close(accepted)
			return
		}
		accepted <- c
	}()
	socket, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return &hostile{socket, t}, accepted, func() { _ = socket.Close(); _ = l.Close() }
}

func (h *hostile) say(k control, payload []byte) {
	_, _ = h.Write(finishControl(append(appendControl(nil, k), payload...)))
}

func exampleList() []byte {
	d := description{Description: Description{DType: core.TypeFloat32, Shape: []int64{2, 3}, Address: "host:1"}}
	return appendListed(le.AppendUint64(nil, 7), Listed{"x", appendDescription(nil, &d)})
}

func exampleHello() *hello {
	return &hello{limits: Limits{Tensors: 1, Bytes: 1, Requests: 1}, alive: time.Second, header: 100, address: []byte{1, 2, 3}}
}

// What breaks the rules of the hello is refused before UCX sees the address.
func TestHostileHellos(t *testing.T) {
	good := appendHello(nil, exampleHello())
	change := func(at int, b ...byte) []byte {
		x := bytes.Clone(good)
		copy(x[at:], b)
		return x
	}
	for name, payload := range map[string][]byte{
		"short": good[:helloSize-1], "no address": good[:helloSize], "no tensors": change(8, 0, 0, 0, 0),
		"no bytes": change(16, 0, 0, 0, 0, 0, 0, 0, 0), "never a sign of life": change(24, 0, 0, 0, 0), "seldom a sign of life": change(24, 255, 255, 255, 255),
		"long address": change(48, 255, 255), "another address": change(48, 2), "more than a hello": append(bytes.Clone(good), 1),
	} {
		t.Run(name, func(t *testing.T) {
			h, accepted, end := meet(t, Options{})
			defer end()
			h.say(controlHello, payload)
			_, _ = io.Copy(io.Discard, h) // until the listener closes the connection
			select {
			case c := <-accepted:
				t.Errorf("the listener has accepted %v", c)
			default:
			}
		})
	}
}

func FuzzControl(f *testing.F) {
	message := func(k control, payload []byte) []byte {
		return finishControl(append(appendControl(nil, k), payload...))
	}
	f.Add(message(controlHello, appendHello(nil, exampleHello())))
	f.Add(message(controlGoodbye, appendGoodbye(nil, goodbye{reasonVersion, 3, 2, "text"})))
	f.Add(message(controlPing, nil))
	f.Add(message(controlSync, make([]byte, 8)))
	f.Add(message(controlListed, exampleList()))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, payload, err := readControl(bytes.NewReader(b), make([]byte, usualControl))
		if err != nil {
			return
		}
		switch k {
		case controlHello:
			if h, err := readHello(payload); err == nil {
				if again, err := readHello(appendHello(nil, &h)); err != nil || !bytes.Equal(again.address, h.address) || again.limits != h.limits {
					t.Errorf("hello %+v becomes %+v: %v", h, again, err)
				}
			}
		case controlGoodbye:
			_, _ = readGoodbye(payload)
		case controlListed:
			if list, next, err := readList(payload); err == nil {
				again := le.AppendUint64(nil, next)
				for _, e := range list {
					again = appendListed(again, e)
				}
				if !bytes.Equal(again, payload) {
					t.Errorf("a list of %d bytes becomes one of %d", len(payload), len(again))
				}
			}
		}
	})
}

func FuzzMeta(f *testing.F) {
	f.Add(appendMeta(nil, &meta{dtype: core.TypeFloat32, shape: []int64{2, 3}, label: "x"}))
	f.Add(appendMeta(nil, &meta{dtype: core.TypeInt4, flags: core.FlagSubBytePadded}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, n, err := readMeta(b, nil)
		if err != nil {
			if !errors.Is(err, core.ErrInvalid) {
				t.Errorf("error %v", err)
			}
			return
		}
		if n < 0 || n > maxBytes {
			t.Errorf("%d bytes", n)
		}
		if again := appendMeta(nil, &m); len(again) != len(b) {
			t.Errorf("%d bytes become %d", len(b), len(again))
		}
	})
}
