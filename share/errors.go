package share

import (
	"errors"
	"io"
	"net"

	"github.com/dlx-go/dlx/core"
)

// ConnError is the error of a connection that has ended. All calls on the connection return
// it from then on. Err says why the connection ended. It wraps
//
//   - core.ErrClosed and net.ErrClosed if this process closed the connection;
//   - core.ErrClosed and io.EOF if the peer closed it, and core.ErrClosed and
//     io.ErrUnexpectedEOF if the peer ended without closing it, such as a process that was killed;
//   - core.ErrVersion if the peer uses another version of the format;
//   - core.ErrInvalid if a message or memory of the peer broke the rules;
//   - core.ErrOutOfMemory if the peer passed more than Options.Limits permit, or this process
//     could not receive a descriptor of something other than memory.
type ConnError struct {
	Peer Peer
	Err  error
}

// Error names the peer and says why the connection ended.
func (e *ConnError) Error() string {
	if e == nil || e.Err == nil {
		return "connection ended"
	}
	return "connection to " + e.Peer.String() + ": " + e.Err.Error()
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
	return core.Errorf(causeError{core.ErrClosed, cause}, "share", "connection", format, args...)
}

// errNoDescriptor is the error of a message whose descriptor this process could not receive. The
// rest of the message is there.
var errNoDescriptor = core.Errorf(core.ErrOutOfMemory, "share", "recvmsg", "a descriptor of the peer could not be opened: raise the limit of open files (RLIMIT_NOFILE), or look for a security module that refuses it")

var errClosedHere = ended(net.ErrClosed, "this process closed the connection")

// lost is the error of a connection whose socket failed with err.
func lost(err error) error {
	switch typed := (*core.Error)(nil); {
	case errors.As(err, &typed):
		return err
	case errors.Is(err, io.EOF), isBroken(err):
		return ended(io.ErrUnexpectedEOF, "the peer ended without closing the connection")
	default:
		return ended(err, "the socket failed: %v", err)
	}
}

// farewell returns what is said to the peer when the connection ends with err, and what
// is told to the peer in words.
func farewell(err error) (reason, string) {
	if errors.Is(err, net.ErrClosed) {
		return reasonClosed, ""
	}
	r := reasonInvalid
	switch {
	case errors.Is(err, core.ErrVersion):
		r = reasonVersion
	case errors.Is(err, core.ErrOutOfMemory):
		r = reasonQuota
	}
	var e *core.Error
	if errors.As(err, &e) {
		return r, e.Detail
	}
	return r, err.Error()
}

// told is the error of a connection that the peer has ended, with what it said.
func told(r reason, text string) error {
	switch r {
	case reasonClosed:
		return ended(io.EOF, "the peer closed the connection")
	case reasonVersion:
		return core.Errorf(core.ErrVersion, "share", "connection", "the peer refused the version of this process, %d: %q", wireVersion, text)
	case reasonQuota:
		return core.Errorf(core.ErrOutOfMemory, "share", "connection", "the peer ended the connection because a limit was exceeded: %q", text)
	case reasonRefused:
		return ended(io.EOF, "the peer refused the connection: %q", text)
	default:
		return core.Errorf(core.ErrInvalid, "share", "connection", "the peer ended the connection because of what it received (%d): %q", r, text)
	}
}
