package remote

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/private"
)

// counted has what core.ReadMetrics says of connections. A connection counts by its own Stats while it is open, so that a
// tensor costs nothing for metrics.
var counted struct {
	refused atomic.Int64
	leases  atomic.Int64

	mu         sync.Mutex // taken before that of a connection
	open       map[*Conn]struct{}
	made       int64
	ended      map[string]int64 // by the reason
	transports map[string]int64 // of connections that have ended
	before     Stats            // sums of connections that have ended
}

func init() {
	counted.open, counted.ended, counted.transports = make(map[*Conn]struct{}), make(map[string]int64), make(map[string]int64)
	private.Core.(interface {
		ReadRemoteMetrics(func() core.RemoteMetrics)
	}).ReadRemoteMetrics(readMetrics)
}

// countMade counts a new connection.
func countMade(c *Conn) {
	counted.mu.Lock()
	defer counted.mu.Unlock()
	counted.made++
	counted.open[c] = struct{}{}
}

// countEnded counts a connection that has ended.
func countEnded(c *Conn) {
	counted.mu.Lock()
	defer counted.mu.Unlock()
	delete(counted.open, c)
	counted.ended[endName(c.Err())]++
	s := c.Stats()
	s.InFlight, s.Waiting = 0, 0
	counted.before.add(s)
	for _, name := range c.usedTransports() {
		counted.transports[name]++
	}
}

// endName names the reason why a connection has ended.
func endName(err error) string {
	switch {
	case errors.Is(err, core.ErrVersion):
		return "version"
	case errors.Is(err, core.ErrInvalid):
		return "rule_broken"
	case errors.Is(err, errStalled):
		return "stalled"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "silent"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "peer_ended"
	case errors.Is(err, io.EOF):
		return "closed_by_peer"
	case errors.Is(err, net.ErrClosed):
		return "closed"
	}
	return "other"
}

// add adds the numbers of t.
func (s *Stats) add(t Stats) {
	s.Sent, s.Received = s.Sent+t.Sent, s.Received+t.Received
	s.BytesSent, s.BytesReceived, s.BytesCopied = s.BytesSent+t.BytesSent, s.BytesReceived+t.BytesReceived, s.BytesCopied+t.BytesCopied
	s.Dropped, s.Served, s.Refused = s.Dropped+t.Dropped, s.Served+t.Served, s.Refused+t.Refused
	s.InFlight, s.Waiting = s.InFlight+t.InFlight, s.Waiting+t.Waiting
}

// readMetrics returns the counts of all connections.
func readMetrics() core.RemoteMetrics {
	counted.mu.Lock()
	defer counted.mu.Unlock()
	s := counted.before
	transports := make(map[string]int64, len(counted.transports))
	for name, n := range counted.transports {
		transports[name] = n
	}
	for c := range counted.open {
		s.add(c.Stats())
		for _, name := range c.usedTransports() {
			transports[name]++
		}
	}
	m := core.RemoteMetrics{
		Connections: counted.made, Refused: counted.refused.Load(), Leases: counted.leases.Load(), Offers: liveOffers.Load(),
		Sent: s.Sent, Received: s.Received, BytesSent: s.BytesSent, BytesReceived: s.BytesReceived, BytesCopied: s.BytesCopied,
		Served: s.Served, RequestsRefused: s.Refused, Dropped: s.Dropped, InFlight: int64(s.InFlight), Waiting: int64(s.Waiting),
	}
	for reason, n := range counted.ended {
		m.Ended = append(m.Ended, core.RemoteCount{Name: reason, Count: n})
	}
	for name, n := range transports {
		m.Transports = append(m.Transports, core.RemoteCount{Name: name, Count: n})
	}
	return m
}

// usedTransports returns the transports that elements went through, none before the first ones.
func (c *Conn) usedTransports() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transports
}
