package share

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

// Listener accepts connections of other processes at a socket. It is safe for concurrent use.
type Listener struct {
	options Options
	quotas  *quotas
	path    string
	info    os.FileInfo // of the socket
	socket  *net.UnixListener

	accepting chan struct{} // holds one element while an Accept runs
	closing   sync.Once
	err       error
}

var liveListeners = live.NewCounter("share.Listener")

// Listen makes a Unix socket at path. The caller closes the result, which removes the socket.
// A socket that a dead process has left at path is replaced. Options apply to all connections.
//
// Listen returns core.ErrInvalid if path cannot be used or an option is wrong, core.ErrExists if
// another process listens at path or something else is there, and core.ErrNotSupported on
// systems other than Linux.
func Listen(path string, o Options) (*Listener, error) {
	if err := available("Listen"); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if path == "" || path[0] == '@' || path[0] == 0 {
		return nil, core.Errorf(core.ErrInvalid, "share", "Listen", "%q is not the path of a file: a socket without one has no permissions", path)
	}
	socket, info, err := listen(path, o.Mode)
	if err != nil {
		return nil, err
	}
	if whole, err := filepath.Abs(path); err == nil { // Close finds it after a change of the folder
		path = whole
	}
	liveListeners.Add(1)
	return &Listener{options: o, quotas: newQuotas(o.UserLimits), path: path, info: info, socket: socket, accepting: make(chan struct{}, 1)}, nil
}

// Accept waits for a process that connects and that Options.Allow and Options.UserLimits permit. The caller closes
// the result. Accept does not wait until the process has said what it can; calls on the
// connection do. It returns ctx's error, or core.ErrClosed if the listener was closed.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	if l == nil || l.socket == nil {
		return nil, core.Errorf(core.ErrInvalid, "share", "Accept", "the listener is nil or was not made by Listen")
	}
	select {
	case l.accepting <- struct{}{}:
		defer func() { <-l.accepting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		if err := l.socket.SetDeadline(time.Time{}); err != nil {
			return nil, l.failed(ctx, err)
		}
		stop := context.AfterFunc(ctx, func() { _ = l.socket.SetDeadline(time.Unix(1, 0)) })
		socket, err := l.socket.AcceptUnix()
		stop()
		if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil { // of an earlier call's ctx
			continue
		}
		if err != nil {
			return nil, l.failed(ctx, err)
		}
		c, err := newConn(socket, l.options, l.quotas)
		if err == nil {
			return c, nil
		}
		_ = socket.Close() // a process that may not connect, or has gone again, is no error of the listener
	}
}

// failed is the error of a call of the system that failed with err.
func (l *Listener) failed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, net.ErrClosed):
		return core.Errorf(core.ErrClosed, "share", "Accept", "the listener at %s was closed", l.path)
	default:
		return systemError(core.ErrOutOfMemory, "Accept", err, "no connection at %s", l.path)
	}
}

// Close removes the socket, unless another one is there now, and ends Accept. Connections stay
// open. A second Close returns the result of the first.
func (l *Listener) Close() error {
	if l == nil || l.socket == nil {
		return nil
	}
	l.closing.Do(func() {
		liveListeners.Add(-1)
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.info) {
			l.err = os.Remove(l.path)
		}
		l.err = errors.Join(l.err, l.socket.Close())
	})
	return l.err
}

// Path returns the absolute path of the socket.
func (l *Listener) Path() string {
	if l == nil {
		return ""
	}
	return l.path
}

// Dial connects to the socket at path and waits until the process there has said what it can.
// The caller closes the result.
//
// Dial returns ctx's error, core.ErrInvalid if an option is wrong, core.ErrClosed if nobody
// listens at path or, with fs.ErrPermission, if this user may not connect, core.ErrNotSupported
// on systems other than Linux, and the [*ConnError] of a connection that ended at once, such as
// that of a peer with another version of the format.
func Dial(ctx context.Context, path string, o Options) (*Conn, error) {
	if err := available("Dial"); err != nil {
		return nil, err
	}
	socket, err := dial(ctx, path)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, systemError(core.ErrClosed, "Dial", err, "no connection to %s: %s", path, dialHint(path, err))
	}
	c, err := New(socket, o)
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	if err := c.Handshake(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// dial connects to a socket. One that refuses connections may have been made a moment ago, by a process that
// does not listen yet: dial tries again for a while.
func dial(ctx context.Context, path string) (*net.UnixConn, error) {
	const tries, pause = 20, 10 * time.Millisecond
	var d net.Dialer
	for i := 1; ; i++ {
		c, err := d.DialContext(ctx, network, path)
		if err == nil {
			return c.(*net.UnixConn), nil
		}
		if i == tries || !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
