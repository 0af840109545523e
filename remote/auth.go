package remote

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"time"

	"github.com/dlx-go/dlx/core"
)

// secure makes the control connection of a socket: TLS, unless the options are insecure, and the proof of the token. On
// failure the caller closes socket. The handshake ends with ctx.
func (o *Options) secure(ctx context.Context, socket net.Conn, server bool, host string) (net.Conn, error) {
	if o.Insecure {
		for _, a := range []net.Addr{socket.LocalAddr(), socket.RemoteAddr()} {
			if t, ok := a.(*net.TCPAddr); !ok || !t.IP.IsLoopback() {
				return nil, invalid("connection", "%v is not on the loopback interface, and insecure connections are for that only: use a token or certificates", a)
			}
		}
		return socket, nil
	}
	config, err := o.config(server, host)
	if err != nil {
		return nil, err
	}
	c := tls.Client(socket, config)
	if server {
		c = tls.Server(socket, config)
	}
	if err := c.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if record := (tls.RecordHeaderError{}); errors.As(err, &record) && string(record.RecordHeader[:len(controlMagic)]) == controlMagic {
			return nil, refusePlain(socket, server)
		}
		return nil, ended(err, "the TLS handshake failed: %v", err)
	}
	if len(o.Token) > 0 {
		err = o.prove(c, server)
	}
	return c, err
}

// refusePlain returns the error of a peer that uses neither TLS nor a token, and tells such a client, which cannot know why the
// connection ends.
func refusePlain(socket net.Conn, server bool) error {
	if server {
		_ = socket.SetDeadline(time.Now().Add(lingers))
		text := "this side needs TLS or a token, and an insecure connection has neither"
		_, _ = socket.Write(finishControl(appendGoodbye(appendControl(nil, controlGoodbye), goodbye{reason: reasonRefused, text: text})))
		if tcp, ok := socket.(*net.TCPConn); ok { // what was not read would make a reset of Close, which takes the goodbye away
			_ = tcp.CloseWrite()
			_, _ = io.CopyN(io.Discard, socket, maxControl)
		}
	}
	return ended(ErrInsecure, "the peer is insecure: it uses neither TLS nor a token, and this side does; both sides must use the same")
}

// config returns the configuration of TLS.
func (o *Options) config(server bool, host string) (*tls.Config, error) {
	var c *tls.Config
	switch {
	case o.TLS != nil:
		c = o.TLS.Clone()
		c.ClientAuth = tls.RequireAndVerifyClientCert
		if c.ServerName == "" {
			c.ServerName = host
		}
	case server:
		certificate, err := madeUp()
		if err != nil {
			return nil, err
		}
		c = &tls.Config{Certificates: []tls.Certificate{certificate}}
	default:
		c = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // prove authenticates the server
	}
	c.MinVersion = tls.VersionTLS13
	c.NextProtos = nil
	c.SessionTicketsDisabled = true // a resumed session would not call the program's checks of certificates
	return c, nil
}

// madeUp returns a certificate that says nothing.
func madeUp() (tls.Certificate, error) {
	failed := func(err error) (tls.Certificate, error) {
		return tls.Certificate{}, core.Errorf(core.ErrInvalid, "remote", "certificate", "%v", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return failed(err)
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return failed(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// prove proves that both sides know the token. The proofs depend on the keys of this TLS connection, so that somebody in
// between cannot pass them on. The client proves first, so that nobody gets a proof of the server for nothing.
func (o *Options) prove(c *tls.Conn, server bool) error {
	state := c.ConnectionState()
	keys, err := state.ExportKeyingMaterial("EXPORTER-dlx-remote-token", nil, 32)
	if err != nil {
		return core.Errorf(core.ErrInvalid, "remote", "token", "%v", err)
	}
	proof := func(server bool) []byte {
		role := "client"
		if server {
			role = "server"
		}
		h := hmac.New(sha256.New, o.Token)
		h.Write([]byte(role))
		h.Write(keys)
		return h.Sum(nil)
	}
	send := func() error {
		_, err := c.Write(finishControl(append(appendControl(nil, controlProof), proof(server)...)))
		return o.lostIf(err)
	}
	if !server {
		if err := send(); err != nil {
			return err
		}
	}
	k, payload, err := readControl(c, make([]byte, usualControl))
	if err != nil {
		return o.lost(err)
	}
	if k == controlGoodbye {
		return o.toldIn(payload)
	}
	if k != controlProof || !hmac.Equal(payload, proof(!server)) {
		_, _ = c.Write(finishControl(appendGoodbye(appendControl(nil, controlGoodbye), goodbye{reason: reasonRefused, text: "it has another token"})))
		return ended(errToken, "the peer has another token")
	}
	if server {
		return send()
	}
	return nil
}

// lostIf is lost for an error that may be nil.
func (o *Options) lostIf(err error) error {
	if err == nil {
		return nil
	}
	return o.lost(err)
}
