package share

import (
	"errors"
	"io"
	"net"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// counted has what core.ReadMetrics says of connections. A connection counts by its own Stats while
// it is open, so that a tensor costs nothing for metrics.
var counted struct {
	mu      sync.Mutex // taken before that of a connection
	open    map[*Conn]struct{}
	made    int64
	refused int64
	ended   map[string]int64 // by the reason
	before  Stats            // sums of connections that have ended
}

func init() {
	counted.open, counted.ended = make(map[*Conn]struct{}), make(map[string]int64)
	privateCore.ReadShareMetrics(readMetrics)
}

// countMade counts a new connection.
func countMade(c *Conn) {
	counted.mu.Lock()
	defer counted.mu.Unlock()
	counted.made++
	counted.open[c] = struct{}{}
}

// countRefused counts a process that Options.Allow has refused.
func countRefused() {
	counted.mu.Lock()
	defer counted.mu.Unlock()
	counted.refused++
}

// countEnded counts a connection that has ended.
func countEnded(c *Conn) {
	counted.mu.Lock()
	defer counted.mu.Unlock()
	delete(counted.open, c)
	counted.ended[endName(c.cause())]++
	counted.before.add(c.Stats())
}

// endName names the reason why a connection has ended.
func endName(err error) string {
	switch {
	case errors.Is(err, core.ErrVersion):
		return "version"
	case errors.Is(err, core.ErrInvalid):
		return "rule_broken"
	case errors.Is(err, core.ErrOutOfMemory):
		return "limit"
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
	s.Sent, s.Received, s.Released = s.Sent+t.Sent, s.Received+t.Received, s.Released+t.Released
	s.BytesSent, s.BytesReceived, s.BytesCopied = s.BytesSent+t.BytesSent, s.BytesReceived+t.BytesReceived, s.BytesCopied+t.BytesCopied
	s.MemoriesSent, s.MemoriesOpened = s.MemoriesSent+t.MemoriesSent, s.MemoriesOpened+t.MemoriesOpened
	s.InFlight, s.Held = s.InFlight+t.InFlight, s.Held+t.Held
	s.FramesSent, s.FramesReleased = s.FramesSent+t.FramesSent, s.FramesReleased+t.FramesReleased
	s.FramesReceived, s.FramesDropped = s.FramesReceived+t.FramesReceived, s.FramesDropped+t.FramesDropped
	s.FrameBytesSent, s.FrameBytesReceived = s.FrameBytesSent+t.FrameBytesSent, s.FrameBytesReceived+t.FrameBytesReceived
	s.LoanWaits, s.ReceiveWaits = s.LoanWaits+t.LoanWaits, s.ReceiveWaits+t.ReceiveWaits
	s.FramesInFlight, s.FramesHeld = s.FramesInFlight+t.FramesInFlight, s.FramesHeld+t.FramesHeld
}

// readMetrics returns the counts of all connections.
func readMetrics() core.ShareMetrics {
	counted.mu.Lock()
	defer counted.mu.Unlock()
	s := counted.before
	for c := range counted.open {
		s.add(c.Stats())
	}
	m := core.ShareMetrics{
		Connections: counted.made, Refused: counted.refused,
		Sent: s.Sent, Received: s.Received, Released: s.Released,
		BytesSent: s.BytesSent, BytesReceived: s.BytesReceived, BytesCopied: s.BytesCopied,
		MemoriesSent: s.MemoriesSent, MemoriesOpened: s.MemoriesOpened,
		InFlight: int64(s.InFlight), Held: int64(s.Held),
		FramesSent: s.FramesSent, FramesReleased: s.FramesReleased, FramesReceived: s.FramesReceived, FramesDropped: s.FramesDropped,
		FrameBytesSent: s.FrameBytesSent, FrameBytesReceived: s.FrameBytesReceived, LoanWaits: s.LoanWaits, ReceiveWaits: s.ReceiveWaits,
		FramesInFlight: int64(s.FramesInFlight), FramesHeld: int64(s.FramesHeld),
	}
	for reason, n := range counted.ended {
		m.Ended = append(m.Ended, core.ShareEndMetrics{Reason: reason, Count: n})
	}
	return m
}
