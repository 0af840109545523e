package remote

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/dlx-go/dlx/core"
)

// ErrInsecure is the cause of a [*ConnError] if one side of a connection uses Options.Insecure, and the other one TLS or a token.
var ErrInsecure = errors.New("only one side is insecure")

// ConnError is the error of a connection that has ended. All calls on the connection return it from then on. Err says why
// the connection ended. It wraps
//
//   - core.ErrClosed and net.ErrClosed if this process closed the connection;
//   - core.ErrClosed and io.EOF if the peer closed it; but Receive and All return core.ErrClosed and io.ErrUnexpectedEOF if
//     the peer had sent tensors that were not received;
//   - core.ErrClosed and io.ErrUnexpectedEOF if the peer ended without closing it, or the link was cut;
//   - core.ErrClosed and os.ErrDeadlineExceeded if one side heard no sign of life of the other one for its
//     Options.KeepAlive, or if UCX did not end a request of one side by KeepAlive after its time;
//   - core.ErrClosed and [ErrInsecure] if only one side uses Options.Insecure;
//   - core.ErrVersion if the peer uses another version of the messages;
//   - core.ErrInvalid if a message of the peer broke the rules.
type ConnError struct {
	Peer string // the address of the peer
	Err  error
}

// Error names the peer and says why the connection ended.
func (e *ConnError) Error() string {
	if e == nil || e.Err == nil {
		return "connection ended"
	}
	return "connection to " + e.Peer + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *ConnError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// causeError is a sentinel error with the error that caused it, whose text is elsewhere.
type causeError struct{ sentinel, cause error }

func (e causeError) Error() string { return e.sentinel.Error() }

func (e causeError) Unwrap() []error { return []error{e.sentinel, e.cause} }

// ended is the error of a connection that one of its sides has ended.
func ended(cause error, format string, args ...any) error {
	return core.Errorf(causeError{core.ErrClosed, cause}, "remote", "connection", format, args...)
}

var errClosedHere = ended(net.ErrClosed, "this process closed the connection")

// lost is the error of a connection whose control connection failed with err.
func (o *Options) lost(err error) error {
	switch typed := (*core.Error)(nil); {
	case errors.As(err, &typed):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ended(err, "the peer showed no sign of life for %v", o.KeepAlive)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ended(io.ErrUnexpectedEOF, "the peer ended without closing the connection, or the link was cut")
	default:
		return ended(err, "the control connection failed: %v", err)
	}
}

func invalid(call, format string, args ...any) error {
	return core.Errorf(core.ErrInvalid, "remote", call, format, args...)
}

// violation is the error of a message that breaks the rules of the format.
func violation(format string, args ...any) error {
	return core.Errorf(core.ErrInvalid, "remote", "message", format, args...)
}

// errStalled is the cause of the end of a connection whose request UCX does not end.
var errStalled = fmt.Errorf("a request has stalled: %w", os.ErrDeadlineExceeded)

var errToken = errors.New("wrong token")

// errFull is the cause of the end of a connection that nobody accepts, and for which there is no room.
var errFull = errors.New("too many connections wait")

// told is the error of a connection that the peer has ended by a goodbye.
func (o *Options) told(g goodbye) error {
	switch g.reason {
	case reasonClosed:
		return ended(io.EOF, "the peer closed the connection")
	case reasonVersion:
		return core.Errorf(core.ErrVersion, "remote", "connection", "the peer refused the version of this process, %d: %q", wireVersion, g.text)
	case reasonRefused:
		return ended(io.EOF, "the peer refused the connection: %q", g.text)
	case reasonStalled:
		return ended(errStalled, "the peer ended the connection: %q", g.text)
	case reasonSilent:
		return ended(os.ErrDeadlineExceeded, "the peer ended the connection, since it heard no sign of life of this process for longer than its keep-alive")
	case reasonLost:
		return ended(io.ErrUnexpectedEOF, "the peer ended the connection, since it lost this process")
	}
	return core.Errorf(core.ErrInvalid, "remote", "connection", "the peer ended the connection because of what it received (%d): %q", g.reason, g.text)
}

// toldIn is told for the payload of a goodbye instead of a proof or a hello.
func (o *Options) toldIn(payload []byte) error {
	g, err := readGoodbye(payload)
	if err != nil {
		return err
	}
	if o.Insecure && g.reason == reasonRefused { // so the peer is not
		return ended(ErrInsecure, "the peer refused the connection: %q", g.text)
	}
	return o.told(g)
}

// farewell returns what is said to the peer when the connection ends with err.
func farewell(err error) goodbye {
	g := goodbye{reason: reasonInvalid, text: err.Error()}
	var e *core.Error
	if errors.As(err, &e) {
		g.text = e.Detail
	}
	switch {
	case errors.Is(err, net.ErrClosed):
		g.reason, g.text = reasonClosed, ""
	case errors.Is(err, core.ErrVersion):
		g.reason = reasonVersion
	case errors.Is(err, errStalled):
		g.reason = reasonStalled
	case errors.Is(err, errFull):
		g.reason = reasonRefused
	case errors.Is(err, os.ErrDeadlineExceeded):
		g.reason, g.text = reasonSilent, "" // the text is of this side's view
	case errors.Is(err, core.ErrClosed):
		g.reason, g.text = reasonLost, ""
	}
	return g
}
