//go:build cgo

package main

// #include "entry.h"
import "C"

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/remote"
)

var (
	remoteListeners   = newHandles[remoteListener]("remote_listener")
	remoteConnections = newHandles[remoteConnection]("remote_connection")
)

type remoteListener struct {
	*remote.Listener
	poller
}

type remoteConnection struct {
	*remote.Conn
	poller
}

// remoteOptions reads the options of a listener or a connection.
func remoteOptions(o *C.dlx_remote_options) (options remote.Options, p poller, err error) {
	if o == nil {
		return options, p, nil
	}
	if err := unset(o.reserved[:]...); err != nil {
		return options, p, err
	}
	if err := unset(o.reserved32); err != nil {
		return options, p, err
	}
	switch {
	case o.insecure != 0 && o.insecure != 1:
		return options, p, invalid("insecure is %d, and neither 0 nor 1", o.insecure)
	case o.token == nil && o.token_size > 0:
		return options, p, invalid("token is NULL, and token_size is %d", o.token_size)
	case o.token_size > 1<<16: // package remote knows the limit; this is for GoBytes
		return options, p, invalid("token_size is %d: a token has 16 to 1024 bytes", o.token_size)
	}
	options = remote.Options{
		Insecure: o.insecure == 1, Token: C.GoBytes(o.token, C.int(o.token_size)),
		KeepAlive: time.Duration(o.keep_alive_ns), Poll: time.Duration(o.spin_ns),
		Limits: remote.Limits{Tensors: int(o.limit_tensors), Bytes: int64(o.limit_bytes), Requests: int(o.limit_requests)},
	}
	if o.token != nil && o.token_size == 0 {
		return options, p, invalid("the token has no bytes: a token has 16 to 1024")
	}
	options.TLS, err = certificates(o.cert_file, o.key_file, o.ca_file, o.server_name)
	return options, newPoller(o.poll, o.poll_context), err
}

// newPoller returns the poller of a function of the program, which may be NULL.
func newPoller(poll C.dlx_poll, pollContext unsafe.Pointer) (p poller) {
	if poll != nil {
		p = poller{C.uintptr_t(uintptr(unsafe.Pointer(poll))), C.uintptr_t(uintptr(pollContext))}
	}
	return p
}

// certificates reads the files of TLS. It returns nil if none is named.
func certificates(cert, key, ca, name *C.char) (*tls.Config, error) {
	if cert == nil && key == nil && ca == nil {
		if name != nil {
			return nil, invalid("server_name is set without cert_file, key_file and ca_file: it is for certificates")
		}
		return nil, nil
	}
	if cert == nil || key == nil || ca == nil {
		return nil, invalid("cert_file, key_file and ca_file are needed together: both sides present a certificate")
	}
	pair, err := tls.LoadX509KeyPair(C.GoString(cert), C.GoString(key))
	if err != nil {
		return nil, fmt.Errorf("%w: the certificate cannot be read: %w", core.ErrInvalid, err)
	}
	pem, err := os.ReadFile(C.GoString(ca))
	if err != nil {
		return nil, fmt.Errorf("%w: the certificates of authorities cannot be read: %w", core.ErrInvalid, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, invalid("%s has no certificate in the format PEM", C.GoString(ca))
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, ServerName: optionalText(name), MinVersion: tls.VersionTLS13}, nil
}

// setRemoteConnection makes a handle of a connection, if there is no error.
func setRemoteConnection(out **C.dlx_remote_connection, c *remote.Conn, p poller, err error) error {
	if err == nil {
		remoteConnections.add(unsafe.Pointer(out), remoteConnection{c, p})
	}
	return err
}

// setRemote makes a handle of the report of a tensor that came if received is true, and else left. whole is what its text and its
// JSON are made of. There is none if report is nil.
func setRemote(report **C.dlx_report, r remote.Report, whole fmt.Stringer, received bool) {
	if report == nil {
		return
	}
	m := made{
		Report: exchange.Report{Mechanism: r.Mechanism, BytesCopied: r.BytesCopied, Wait: r.Wait, Duration: r.Duration},
		whole:  whole,
		label:  r.Label,
	}
	if received {
		m.To = r.Device
	} else {
		m.From = r.Device
	}
	reports.add(unsafe.Pointer(report), m)
}

//export dlxgo_remote_available
func dlxgo_remote_available(version **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := remote.Available(); err != nil || version == nil {
			return err
		}
		return setText(version, remote.Version())
	})
}

//export dlxgo_remote_listen
func dlxgo_remote_listen(address *C.char, o *C.dlx_remote_options, out **C.dlx_remote_listener, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("listener", unsafe.Pointer(out)); err != nil {
			return err
		}
		if err := required("address", unsafe.Pointer(address)); err != nil {
			return err
		}
		options, p, err := remoteOptions(o)
		if err != nil {
			return err
		}
		l, err := remote.Listen(C.GoString(address), options)
		if err == nil {
			remoteListeners.add(unsafe.Pointer(out), remoteListener{l, p})
		}
		return err
	})
}

//export dlxgo_remote_listener_address
func dlxgo_remote_listener_address(handle *C.dlx_remote_listener, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return on(remoteListeners, unsafe.Pointer(handle), e, func(l remoteListener) error {
		return setText(out, l.Addr().String())
	})
}

//export dlxgo_remote_listener_accept
func dlxgo_remote_listener_accept(handle *C.dlx_remote_listener, timeout C.int64_t, out **C.dlx_remote_connection, e *C.dlx_error) C.dlx_status {
	return on(remoteListeners, unsafe.Pointer(handle), e, func(l remoteListener) error {
		if err := required("connection", unsafe.Pointer(out)); err != nil {
			return err
		}
		return l.within(timeout, func(ctx context.Context) error {
			c, err := l.Accept(ctx)
			return setRemoteConnection(out, c, l.poller, err)
		})
	})
}

//export dlxgo_remote_listener_serve
func dlxgo_remote_listener_serve(handle *C.dlx_remote_listener, timeout C.int64_t, e *C.dlx_error) C.dlx_status {
	return on(remoteListeners, unsafe.Pointer(handle), e, func(l remoteListener) error {
		return l.within(timeout, l.Serve)
	})
}

//export dlxgo_remote_listener_close
func dlxgo_remote_listener_close(handle *C.dlx_remote_listener, e *C.dlx_error) C.dlx_status {
	return closeHandle(remoteListeners, unsafe.Pointer(handle), e, remoteListener.Close)
}

//export dlxgo_remote_connect
func dlxgo_remote_connect(address *C.char, o *C.dlx_remote_options, timeout C.int64_t, out **C.dlx_remote_connection, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("connection", unsafe.Pointer(out)); err != nil {
			return err
		}
		if err := required("address", unsafe.Pointer(address)); err != nil {
			return err
		}
		options, p, err := remoteOptions(o)
		if err != nil {
			return err
		}
		where := C.GoString(address)
		return p.within(timeout, func(ctx context.Context) error {
			c, err := remote.Dial(ctx, where, options)
			return setRemoteConnection(out, c, p, err)
		})
	})
}

//export dlxgo_remote_send
func dlxgo_remote_send(handle *C.dlx_remote_connection, tensor *C.dlx_tensor, label *C.char, timeout C.int64_t, report **C.dlx_report, e *C.dlx_error) C.dlx_status {
	return on(remoteConnections, unsafe.Pointer(handle), e, func(c remoteConnection) error {
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		text := optionalText(label)
		return c.within(timeout, func(ctx context.Context) error {
			r, err := c.SendLabeled(ctx, t, text)
			if err == nil {
				setRemote(report, r, r, false)
			}
			return err
		})
	})
}

//export dlxgo_remote_receive
func dlxgo_remote_receive(handle *C.dlx_remote_connection, device *C.dlx_device, timeout C.int64_t, tensor **C.dlx_tensor, report **C.dlx_report, e *C.dlx_error) C.dlx_status {
	return on(remoteConnections, unsafe.Pointer(handle), e, func(c remoteConnection) error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		d, err := devices.get(unsafe.Pointer(device))
		if err != nil {
			return err
		}
		return c.within(timeout, func(ctx context.Context) error {
			t, r, err := c.Receive(ctx, d)
			return setRemoteTensor(tensor, report, t, r, err)
		})
	})
}

// setRemoteTensor makes handles of a tensor that came and of its report, if there is no error.
func setRemoteTensor(out **C.dlx_tensor, report **C.dlx_report, t *core.Tensor, r remote.Report, err error) error {
	if err == nil {
		setRemote(report, r, r, true)
	}
	return setTensor(out, t, err)
}

//export dlxgo_remote_wait_received
func dlxgo_remote_wait_received(handle *C.dlx_remote_connection, timeout C.int64_t, e *C.dlx_error) C.dlx_status {
	return on(remoteConnections, unsafe.Pointer(handle), e, func(c remoteConnection) error {
		return c.within(timeout, c.WaitReceived)
	})
}

//export dlxgo_remote_connection_error
func dlxgo_remote_connection_error(handle *C.dlx_remote_connection, e *C.dlx_error) C.dlx_status {
	return on(remoteConnections, unsafe.Pointer(handle), e, remoteConnection.Err)
}

//export dlxgo_remote_connection_get_info
func dlxgo_remote_connection_get_info(handle *C.dlx_remote_connection, info *C.dlx_remote_connection_info, e *C.dlx_error) C.dlx_status {
	return on(remoteConnections, unsafe.Pointer(handle), e, func(c remoteConnection) error {
		if err := required("info", unsafe.Pointer(info)); err != nil {
			return err
		}
		s := c.Stats()
		*info = C.dlx_remote_connection_info{
			state: stateOf(c.Err()),
			sent:  C.int64_t(s.Sent), received: C.int64_t(s.Received), in_flight: C.int64_t(s.InFlight), waiting: C.int64_t(s.Waiting),
			bytes_sent: C.int64_t(s.BytesSent), bytes_received: C.int64_t(s.BytesReceived), bytes_copied: C.int64_t(s.BytesCopied),
			served: C.int64_t(s.Served), refused: C.int64_t(s.Refused), dropped: C.int64_t(s.Dropped),
		}
		return nil
	})
}

//export dlxgo_remote_connection_json
func dlxgo_remote_connection_json(handle *C.dlx_remote_connection, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return on(remoteConnections, unsafe.Pointer(handle), e, func(c remoteConnection) error {
		return setJSON(out, struct {
			Peer       string       `json:"peer"`
			Transports []string     `json:"transports"`
			Stats      remote.Stats `json:"stats"`
		}{c.Peer().String(), append([]string{}, c.Transports()...), c.Stats()})
	})
}

//export dlxgo_remote_connection_close
func dlxgo_remote_connection_close(handle *C.dlx_remote_connection, e *C.dlx_error) C.dlx_status {
	return closeHandle(remoteConnections, unsafe.Pointer(handle), e, remoteConnection.Close)
}
