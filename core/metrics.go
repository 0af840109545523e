package core

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Metrics is what [ReadMetrics] returns: how much was allocated, moved, opened and waited for in this process
// since it started. A count never falls unless its comment says so. The JSON has the same fields.
type Metrics struct {
	// Devices has an entry for each place of memory that was used so far, in the order of the texts of the
	// places.
	Devices []DeviceMetrics `json:"devices"`
	// Moves has an entry for each source, destination and mechanism for which a move has succeeded.
	Moves []MoveMetrics `json:"moves"`
	// MoveErrors has an entry for each kind of error by which a move has failed.
	MoveErrors []MoveErrorMetrics `json:"move_errors"`
	// LostTensors is the number of tensors that the program lost without closing them since it started, as far as the
	// garbage collector has found and closed them.
	LostTensors int64 `json:"lost_tensors"`
	// Share counts the connections of package share; it is zero, and left out of the JSON, without one.
	Share ShareMetrics `json:"share,omitzero"`
	// Remote counts the connections of package remote; it is zero, and left out of the JSON, without one.
	Remote RemoteMetrics `json:"remote,omitzero"`
}

// DeviceMetrics is the part of [Metrics] that belongs to one place of memory. All devices that were opened with
// this ID count together, also those that are closed.
type DeviceMetrics struct {
	Device DeviceID `json:"device"`

	// Allocs is the number of allocations by [Alloc], which [Empty] and the moves of package exchange use.
	// Frees is how many of them were given back to the device. The device may keep the memory in a pool.
	Allocs         int64 `json:"allocs"`
	Frees          int64 `json:"frees"`
	AllocatedBytes int64 `json:"allocated_bytes"` // of Allocs, as asked for
	FreedBytes     int64 `json:"freed_bytes"`     // of Frees
	AllocErrors    int64 `json:"alloc_errors"`    // calls of Alloc that failed

	// Tensors is the number of open tensors now, and Buffers the number of buffers that they lie on. A
	// buffer without an open tensor, which [Buffer.Retain] keeps, does not count here, but in [Live].
	Tensors int64 `json:"tensors"`
	Buffers int64 `json:"buffers"`

	// Opens is how many times the memory of another device or process was opened for this device, or a
	// device's memory for the host. Closes is how many of these were closed again.
	Opens  int64 `json:"opens"`
	Closes int64 `json:"closes"`

	// HostWaits is how many times a goroutine of the program waited for unfinished work on memory of this
	// place. HostWaitTime is the sum of the times, in nanoseconds. Waits that a program makes by itself, by
	// [Stream.Synchronize] or [Event.Wait], do not count.
	HostWaits    int64         `json:"host_waits"`
	HostWaitTime time.Duration `json:"host_wait_ns"`
}

// LiveBytes returns the number of bytes that are allocated and not freed.
func (m DeviceMetrics) LiveBytes() int64 { return m.AllocatedBytes - m.FreedBytes }

// OpenHandles returns how many memories are open now.
func (m DeviceMetrics) OpenHandles() int64 { return m.Opens - m.Closes }

// MoveMetrics is the part of [Metrics] that counts moves from one place to another by one mechanism.
type MoveMetrics struct {
	From DeviceID `json:"from"` // where the memory of the source lies; CPU for a file
	To   DeviceID `json:"to"`   // the device that the tensor was moved to; CPU for a file
	// Mechanism is a mechanism of package exchange, such as "direct", or "load" or "save" for tensors that the
	// functions Load and Save of package tensorfile have moved from and to files.
	Mechanism string `json:"mechanism"`
	Moves     int64  `json:"moves"` // tensors that were moved
	// Bytes is the sum of the bytes of the tensors. If the mechanism shares memory, these are the bytes from
	// the first element to the last one. A byte counts once, also if it was copied twice.
	Bytes int64 `json:"bytes"`
}

// MoveErrorMetrics is the part of [Metrics] that counts moves that failed with one kind of error.
type MoveErrorMetrics struct {
	// Error names the sentinel error, as in "out_of_memory" for [ErrOutOfMemory]. It is "canceled" if the
	// context of the move ended, and "other" for an error that wraps no sentinel.
	Error string `json:"error"`
	Count int64  `json:"count"`
}

// ShareMetrics is the part of [Metrics] that counts the connections of package share to other processes, and the tensors
// that went through them. Tensors of a call that returns after its connection has ended may be missing.
type ShareMetrics struct {
	Connections int64 `json:"connections"` // that were made
	Refused     int64 `json:"refused"`     // processes that were not permitted to connect
	// Ended has an entry for each reason for which a connection has ended.
	Ended []ShareEndMetrics `json:"ended,omitempty"`

	Sent           int64 `json:"sent"`     // tensors; one that cannot be sent after all counts for a moment
	Received       int64 `json:"received"` // tensors
	Released       int64 `json:"released"` // tensors that were sent, and that the receiver has released
	BytesSent      int64 `json:"bytes_sent"`
	BytesReceived  int64 `json:"bytes_received"`
	BytesCopied    int64 `json:"bytes_copied"`    // because the memory could not be shared
	MemoriesSent   int64 `json:"memories_sent"`   // that were passed, each with a descriptor
	MemoriesOpened int64 `json:"memories_opened"` // that were received and opened

	// InFlight is the number of tensors that were sent and not released now, and Held the number of
	// tensors that have arrived and are not released now.
	InFlight int64 `json:"in_flight"`
	Held     int64 `json:"held"`

	// Frames of rings. A frame is sent once for each subscription.
	FramesSent         int64 `json:"frames_sent"`
	FramesReleased     int64 `json:"frames_released"` // that were sent, and that the subscriber does not need any more
	FramesReceived     int64 `json:"frames_received"`
	FramesDropped      int64 `json:"frames_dropped"` // that this process has not received, since newer ones came
	FrameBytesSent     int64 `json:"frame_bytes_sent"`
	FrameBytesReceived int64 `json:"frame_bytes_received"`
	LoanWaits          int64 `json:"loan_waits"`    // waits of a publisher for a slot, once for each subscriber that needs one
	ReceiveWaits       int64 `json:"receive_waits"` // waits of a subscriber for a frame

	// FramesInFlight is the number of frames that were sent and not released now, and FramesHeld the
	// number of frames that were received and not released now.
	FramesInFlight int64 `json:"frames_in_flight"`
	FramesHeld     int64 `json:"frames_held"`
}

// ShareEndMetrics is the part of [ShareMetrics] that counts connections that ended for one reason.
type ShareEndMetrics struct {
	// Reason is "closed" by this process, "closed_by_peer", "peer_ended" without closing it, such as by a crash, "version",
	// "rule_broken" by either side, "limit" exceeded by either side, or "other".
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
}

// OpenConnections returns the number of connections that are open now.
func (m ShareMetrics) OpenConnections() int64 {
	open := m.Connections
	for _, e := range m.Ended {
		open -= e.Count
	}
	return open
}

// ReadMetrics returns the metrics of this process. It is safe for concurrent use, and no other call waits for it.
// It visits every open tensor, which takes some milliseconds for a million of them.
//
// Each number is exact as of some time during the call. A tensor that is made or closed meanwhile may be in one
// number and not in another. But no number of frees or closes is larger than that of the allocations or opens.
func ReadMetrics() Metrics {
	m := Metrics{Devices: []DeviceMetrics{}, Moves: []MoveMetrics{}, MoveErrors: []MoveErrorMetrics{}, LostTensors: lost.Load()}
	live := countTensors()
	for _, c := range allCounters() {
		d := DeviceMetrics{Device: c.id}
		// What ends is read before what begins, so that the difference is never negative.
		d.Frees, d.FreedBytes, d.Closes = c.frees.Load(), c.freed.Load(), c.closes.Load()
		d.Allocs, d.AllocatedBytes, d.Opens = c.allocs.Load(), c.allocated.Load(), c.opens.Load()
		d.AllocErrors = c.failed.Load()
		d.HostWaits, d.HostWaitTime = c.waits.Load(), time.Duration(c.waited.Load())
		if n := live[c.id]; n != nil {
			d.Tensors, d.Buffers = n.tensors, n.buffers
			delete(live, c.id)
		}
		m.Moves = c.appendMoves(m.Moves)
		if d != (DeviceMetrics{Device: c.id}) {
			m.Devices = append(m.Devices, d)
		}
	}
	for id, n := range live { // memory that nothing else has counted, such as Go slices
		m.Devices = append(m.Devices, DeviceMetrics{Device: id, Tensors: n.tensors, Buffers: n.buffers})
	}
	for i := range moveErrors {
		if n := moveErrors[i].count.Load(); n > 0 {
			m.MoveErrors = append(m.MoveErrors, MoveErrorMetrics{moveErrors[i].name, n})
		}
	}
	if read := shareMetrics.Load(); read != nil {
		m.Share = (*read)()
	}
	if read := remoteMetrics.Load(); read != nil {
		m.Remote = (*read)()
	}
	m.sort()
	return m
}

// sort puts the entries into their order.
func (m *Metrics) sort() {
	slices.SortFunc(m.Devices, func(a, b DeviceMetrics) int { return strings.Compare(a.Device.String(), b.Device.String()) })
	slices.SortFunc(m.Moves, func(a, b MoveMetrics) int {
		return cmp.Or(strings.Compare(a.From.String(), b.From.String()), strings.Compare(a.To.String(), b.To.String()),
			strings.Compare(a.Mechanism, b.Mechanism))
	})
	slices.SortFunc(m.MoveErrors, func(a, b MoveErrorMetrics) int { return strings.Compare(a.Error, b.Error) })
	for _, counts := range [][]RemoteCount{m.Remote.Ended, m.Remote.Transports} {
		slices.SortFunc(counts, func(a, b RemoteCount) int { return strings.Compare(a.Name, b.Name) })
	}
	slices.SortFunc(m.Share.Ended, func(a, b ShareEndMetrics) int { return strings.Compare(a.Reason, b.Reason) })
}
