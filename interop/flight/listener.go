package flight

import (
	"net"
	"sync"
	"sync/atomic"
)

// listener is a listener that counts connections until they are closed. It closes at once what is above the limit, so
// that such a client gets an error and does not wait.
type listener struct {
	net.Listener
	open  *atomic.Int64 // of all listeners of a server
	limit int64
}

// Accept waits for a connection below the limit.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.limit {
			return &counted{Conn: c, leave: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		_ = c.Close()
	}
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close closes the connection. Closing twice is safe.
func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
