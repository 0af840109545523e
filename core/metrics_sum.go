package core

import "slices"

// Plus returns the sums of the numbers of m and other, which are of different processes. It changes neither.
func (m Metrics) Plus(other Metrics) Metrics {
	sum := Metrics{Devices: slices.Clone(m.Devices), Moves: slices.Clone(m.Moves), MoveErrors: slices.Clone(m.MoveErrors), LostTensors: m.LostTensors + other.LostTensors}
	for _, d := range other.Devices {
		at := entry(&sum.Devices, d, func(x DeviceMetrics) bool { return x.Device == d.Device })
		if at == nil {
			continue
		}
		at.Allocs, at.AllocatedBytes, at.AllocErrors = at.Allocs+d.Allocs, at.AllocatedBytes+d.AllocatedBytes, at.AllocErrors+d.AllocErrors
		at.Frees, at.FreedBytes = at.Frees+d.Frees, at.FreedBytes+d.FreedBytes
		at.Tensors, at.Buffers = at.Tensors+d.Tensors, at.Buffers+d.Buffers
		at.Opens, at.Closes = at.Opens+d.Opens, at.Closes+d.Closes
		at.HostWaits, at.HostWaitTime = at.HostWaits+d.HostWaits, at.HostWaitTime+d.HostWaitTime
	}
	for _, v := range other.Moves {
		if at := entry(&sum.Moves, v, func(x MoveMetrics) bool { return x.From == v.From && x.To == v.To && x.Mechanism == v.Mechanism }); at != nil {
			at.Moves, at.Bytes = at.Moves+v.Moves, at.Bytes+v.Bytes
		}
	}
	for _, e := range other.MoveErrors {
		if at := entry(&sum.MoveErrors, e, func(x MoveErrorMetrics) bool { return x.Error == e.Error }); at != nil {
			at.Count += e.Count
		}
	}
	sum.Share = m.Share.plus(other.Share)
	sum.Remote = m.Remote.plus(other.Remote)
	sum.sort()
	return sum
}

// plus returns the sums of the numbers of m and other. It changes neither.
func (m ShareMetrics) plus(other ShareMetrics) ShareMetrics {
	m.Connections, m.Refused = m.Connections+other.Connections, m.Refused+other.Refused
	m.Sent, m.Received, m.Released = m.Sent+other.Sent, m.Received+other.Received, m.Released+other.Released
	m.BytesSent, m.BytesReceived, m.BytesCopied = m.BytesSent+other.BytesSent, m.BytesReceived+other.BytesReceived, m.BytesCopied+other.BytesCopied
	m.MemoriesSent, m.MemoriesOpened = m.MemoriesSent+other.MemoriesSent, m.MemoriesOpened+other.MemoriesOpened
	m.InFlight, m.Held = m.InFlight+other.InFlight, m.Held+other.Held
	m.FramesSent, m.FramesReleased = m.FramesSent+other.FramesSent, m.FramesReleased+other.FramesReleased
	m.FramesReceived, m.FramesDropped = m.FramesReceived+other.FramesReceived, m.FramesDropped+other.FramesDropped
	m.FrameBytesSent, m.FrameBytesReceived = m.FrameBytesSent+other.FrameBytesSent, m.FrameBytesReceived+other.FrameBytesReceived
	m.LoanWaits, m.ReceiveWaits = m.LoanWaits+other.LoanWaits, m.ReceiveWaits+other.ReceiveWaits
	m.FramesInFlight, m.FramesHeld = m.FramesInFlight+other.FramesInFlight, m.FramesHeld+other.FramesHeld
	m.Ended = slices.Clone(m.Ended)
	for _, e := range other.Ended {
		if at := entry(&m.Ended, e, func(x ShareEndMetrics) bool { return x.Reason == e.Reason }); at != nil {
			at.Count += e.Count
		}
	}
	return m
}

// Ended returns the metrics of a process that has ended: the counts stay, and nothing is open any more.
func (m Metrics) Ended() Metrics {
	m.Devices = slices.Clone(m.Devices)
	for i := range m.Devices {
		d := &m.Devices[i]
		d.Frees, d.FreedBytes, d.Closes = d.Allocs, d.AllocatedBytes, d.Opens
		d.Tensors, d.Buffers = 0, 0
	}
	s := &m.Share
	if open := s.OpenConnections(); open > 0 { // the end of the process has ended them
		*s = s.plus(ShareMetrics{Ended: []ShareEndMetrics{{Reason: "closed", Count: open}}})
	}
	s.InFlight, s.Held, s.FramesInFlight, s.FramesHeld = 0, 0, 0, 0
	m.Remote = m.Remote.afterEnd()
	return m
}

// entry returns the entry of a list that is like x. If there is none, it appends x and returns nil.
func entry[T any](list *[]T, x T, like func(T) bool) *T {
	if i := slices.IndexFunc(*list, like); i >= 0 {
		return &(*list)[i]
	}
	*list = append(*list, x)
	return nil
}
