package core

import (
	"slices"
	"sync/atomic"
)

// RemoteMetrics is the part of [Metrics] that counts the connections of package remote to other machines. Tensors of a call that
// returns after its connection has ended may be missing.
type RemoteMetrics struct {
	Connections int64 `json:"connections"` // that were made
	Refused     int64 `json:"refused"`     // peers of listeners that have not proved who they are, or use another version
	// Ended has an entry for each reason for which a connection has ended.
	Ended []RemoteCount `json:"ended,omitempty"`
	// Transports has an entry for each transport of UCX, with the number of connections that have used it.
	Transports []RemoteCount `json:"transports,omitempty"`

	Sent            int64 `json:"sent"`     // tensors
	Received        int64 `json:"received"` // tensors
	BytesSent       int64 `json:"bytes_sent"`
	BytesReceived   int64 `json:"bytes_received"`
	BytesCopied     int64 `json:"bytes_copied"`     // between devices or strided tensors and UCX
	Served          int64 `json:"served"`           // requests of peers that were fulfilled
	RequestsRefused int64 `json:"requests_refused"` // requests of peers that were refused, or have failed
	Dropped         int64 `json:"dropped"`          // data messages that nobody waited for
	Leases          int64 `json:"leases"`           // offers that ended because their lease was over

	// InFlight is the number of tensors that were sent and not received now, Waiting that of tensors that have begun to
	// arrive, and Offers that of offers that are open.
	InFlight int64 `json:"in_flight"`
	Waiting  int64 `json:"waiting"`
	Offers   int64 `json:"offers"`
}

// RemoteCount is a number of connections in [RemoteMetrics].
type RemoteCount struct {
	// Name is that of a transport, or a reason: "closed" by this process, "closed_by_peer", "peer_ended" without closing the
	// connection, "silent" (no sign of life), "version", "rule_broken" by either side, or "other".
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// OpenConnections returns the number of connections that are open now.
func (m RemoteMetrics) OpenConnections() int64 {
	open := m.Connections
	for _, e := range m.Ended {
		open -= e.Count
	}
	return open
}

// plus returns the sums of the numbers of m and other. It changes neither.
func (m RemoteMetrics) plus(other RemoteMetrics) RemoteMetrics {
	m.Connections, m.Refused = m.Connections+other.Connections, m.Refused+other.Refused
	m.Sent, m.Received = m.Sent+other.Sent, m.Received+other.Received
	m.BytesSent, m.BytesReceived, m.BytesCopied = m.BytesSent+other.BytesSent, m.BytesReceived+other.BytesReceived, m.BytesCopied+other.BytesCopied
	m.Served, m.RequestsRefused, m.Dropped, m.Leases = m.Served+other.Served, m.RequestsRefused+other.RequestsRefused, m.Dropped+other.Dropped, m.Leases+other.Leases
	m.InFlight, m.Waiting, m.Offers = m.InFlight+other.InFlight, m.Waiting+other.Waiting, m.Offers+other.Offers
	m.Ended, m.Transports = plusCounts(m.Ended, other.Ended), plusCounts(m.Transports, other.Transports)
	return m
}

// plusCounts returns the sums of counts. It changes neither.
func plusCounts(a, b []RemoteCount) []RemoteCount {
	a = slices.Clone(a)
	for _, e := range b {
		if at := entry(&a, e, func(x RemoteCount) bool { return x.Name == e.Name }); at != nil {
			at.Count += e.Count
		}
	}
	return a
}

// afterEnd returns the metrics of a process that has ended.
func (m RemoteMetrics) afterEnd() RemoteMetrics {
	if open := m.OpenConnections(); open > 0 { // the end of the process has ended them
		m = m.plus(RemoteMetrics{Ended: []RemoteCount{{Name: "closed", Count: open}}})
	}
	m.InFlight, m.Waiting, m.Offers = 0, 0, 0
	return m
}

// remoteMetrics reads the counts of package remote; nil if the program does not have it.
var remoteMetrics atomic.Pointer[func() RemoteMetrics]

// ReadRemoteMetrics makes ReadMetrics call read for the counts of package remote.
func (privateCore) ReadRemoteMetrics(read func() RemoteMetrics) { remoteMetrics.Store(&read) }
