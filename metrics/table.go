package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlx-go/dlx/core"
)

// metric is one metric: its name, what it says, and where its values come from.
type metric struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	device     func(core.DeviceMetrics) float64 // of a metric with the label device
	move       func(core.MoveMetrics) float64   // of a metric with the labels of a move
	all        func(core.Metrics, func(value float64, labels ...string))
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// table has all metrics. docs/metrics.md has the same table.
var table = []metric{
	ofDevice("dlx_allocations_total", counter, "Allocations of memory.", func(d core.DeviceMetrics) int64 { return d.Allocs }),
	ofDevice("dlx_allocated_bytes_total", counter, "Bytes of memory that were allocated.", func(d core.DeviceMetrics) int64 { return d.AllocatedBytes }),
	ofDevice("dlx_allocation_errors_total", counter, "Allocations that failed.", func(d core.DeviceMetrics) int64 { return d.AllocErrors }),
	ofDevice("dlx_frees_total", counter, "Allocations that were freed.", func(d core.DeviceMetrics) int64 { return d.Frees }),
	ofDevice("dlx_freed_bytes_total", counter, "Bytes of memory that were freed.", func(d core.DeviceMetrics) int64 { return d.FreedBytes }),
	ofDevice("dlx_live_bytes", gauge, "Bytes of memory that are allocated and not freed.", core.DeviceMetrics.LiveBytes),
	ofDevice("dlx_tensors", gauge, "Tensors that are open.", func(d core.DeviceMetrics) int64 { return d.Tensors }),
	ofDevice("dlx_buffers", gauge, "Buffers that open tensors lie on.", func(d core.DeviceMetrics) int64 { return d.Buffers }),
	ofDevice("dlx_opened_handles_total", counter, "Memories of other devices and processes that were opened for the device.", func(d core.DeviceMetrics) int64 { return d.Opens }),
	ofDevice("dlx_open_handles", gauge, "Memories of other devices and processes that are open for the device.", core.DeviceMetrics.OpenHandles),
	ofDevice("dlx_host_waits_total", counter, "Waits of the host for unfinished work on memory of the device.", func(d core.DeviceMetrics) int64 { return d.HostWaits }),
	{
		name: "dlx_host_wait_seconds_total", help: "Seconds that the host waited for unfinished work on memory of the device.", kind: counter,
		labels: deviceLabels, device: func(d core.DeviceMetrics) float64 { return d.HostWaitTime.Seconds() },
	},
	ofMove("dlx_moves_total", "Tensors that were moved.", func(m core.MoveMetrics) int64 { return m.Moves }),
	ofMove("dlx_moved_bytes_total", "Bytes of the tensors that were moved, shared or copied. A byte counts once, also if it was copied twice.", func(m core.MoveMetrics) int64 { return m.Bytes }),
	{
		name: "dlx_move_errors_total", help: "Moves that failed, by the kind of error.", kind: counter, labels: []string{"error"},
		all: func(m core.Metrics, put func(float64, ...string)) {
			for _, e := range m.MoveErrors {
				put(float64(e.Count), e.Error)
			}
		},
	},
	{
		name: "dlx_lost_tensors_total", help: "Tensors that the program lost without closing them, and the garbage collector closed.", kind: counter,
		all: func(m core.Metrics, put func(float64, ...string)) { put(float64(m.LostTensors)) },
	},
	ofShare("dlx_share_connections_total", counter, "Connections to other processes that were made.", func(s core.ShareMetrics) int64 { return s.Connections }),
	ofShare("dlx_share_open_connections", gauge, "Connections to other processes that are open.", core.ShareMetrics.OpenConnections),
	ofShare("dlx_share_refused_total", counter, "Processes that were not permitted to connect.", func(s core.ShareMetrics) int64 { return s.Refused }),
	{
		name: "dlx_share_ended_connections_total", help: "Connections that have ended, by the reason.", kind: counter, labels: []string{"reason"},
		all: func(m core.Metrics, put func(float64, ...string)) {
			for _, e := range m.Share.Ended {
				put(float64(e.Count), e.Reason)
			}
		},
	},
	ofShare("dlx_share_sent_tensors_total", counter, "Tensors that were sent to other processes.", func(s core.ShareMetrics) int64 { return s.Sent }),
	ofShare("dlx_share_received_tensors_total", counter, "Tensors that were received from other processes.", func(s core.ShareMetrics) int64 { return s.Received }),
	ofShare("dlx_share_sent_bytes_total", counter, "Bytes of the tensors that were sent, shared or copied.", func(s core.ShareMetrics) int64 { return s.BytesSent }),
	ofShare("dlx_share_received_bytes_total", counter, "Bytes of the tensors that were received, shared or copied.", func(s core.ShareMetrics) int64 { return s.BytesReceived }),
	ofShare("dlx_share_copied_bytes_total", counter, "Bytes that were copied because memory could not be shared with another process.", func(s core.ShareMetrics) int64 { return s.BytesCopied }),
	ofShare("dlx_share_sent_memories_total", counter, "Memories that were passed to other processes.", func(s core.ShareMetrics) int64 { return s.MemoriesSent }),
	ofShare("dlx_share_opened_memories_total", counter, "Memories of other processes that were opened.", func(s core.ShareMetrics) int64 { return s.MemoriesOpened }),
	ofShare("dlx_share_in_flight_tensors", gauge, "Tensors that were sent, and that the receiver has not released.", func(s core.ShareMetrics) int64 { return s.InFlight }),
	ofShare("dlx_share_held_tensors", gauge, "Tensors that have arrived from other processes, and were not released.", func(s core.ShareMetrics) int64 { return s.Held }),
	ofShare("dlx_share_sent_frames_total", counter, "Frames of rings that were sent to other processes, once for each subscription.", func(s core.ShareMetrics) int64 { return s.FramesSent }),
	ofShare("dlx_share_received_frames_total", counter, "Frames of rings that were received from other processes.", func(s core.ShareMetrics) int64 { return s.FramesReceived }),
	ofShare("dlx_share_released_frames_total", counter, "Frames that were sent, and that the subscriber does not need any more.", func(s core.ShareMetrics) int64 { return s.FramesReleased }),
	ofShare("dlx_share_dropped_frames_total", counter, "Frames of rings of the mode Latest that were not received, since newer ones came.", func(s core.ShareMetrics) int64 { return s.FramesDropped }),
	ofShare("dlx_share_sent_frame_bytes_total", counter, "Bytes of the frames that were sent, once for each subscription.", func(s core.ShareMetrics) int64 { return s.FrameBytesSent }),
	ofShare("dlx_share_received_frame_bytes_total", counter, "Bytes of the frames that were received.", func(s core.ShareMetrics) int64 { return s.FrameBytesReceived }),
	ofShare("dlx_share_loan_waits_total", counter, "Waits of a publisher for a slot, once for each subscriber that still used one.", func(s core.ShareMetrics) int64 { return s.LoanWaits }),
	ofShare("dlx_share_receive_waits_total", counter, "Waits of a subscriber for a frame.", func(s core.ShareMetrics) int64 { return s.ReceiveWaits }),
	ofShare("dlx_share_in_flight_frames", gauge, "Frames that were sent, and that the subscriber has not released.", func(s core.ShareMetrics) int64 { return s.FramesInFlight }),
	ofShare("dlx_share_held_frames", gauge, "Frames that were received, and not released.", func(s core.ShareMetrics) int64 { return s.FramesHeld }),
}

// ofShare is a metric of package share. A program that has made no connection does not have it.
func ofShare(name string, kind prometheus.ValueType, help string, value func(core.ShareMetrics) int64) metric {
	return metric{name: name, help: help, kind: kind, all: func(m core.Metrics, put func(float64, ...string)) {
		if s := m.Share; s.Connections > 0 || s.Refused > 0 {
			put(float64(value(s)))
		}
	}}
}

var (
	deviceLabels = []string{"device"}
	moveLabels   = []string{"from", "to", "mechanism"}
)

func ofDevice(name string, kind prometheus.ValueType, help string, value func(core.DeviceMetrics) int64) metric {
	return metric{name: name, help: help, kind: kind, labels: deviceLabels, device: func(d core.DeviceMetrics) float64 { return float64(value(d)) }}
}

func ofMove(name, help string, value func(core.MoveMetrics) int64) metric {
	return metric{name: name, help: help, kind: counter, labels: moveLabels, move: func(m core.MoveMetrics) float64 { return float64(value(m)) }}
}

// each calls put for each value of the metric, with the values of its labels.
func (x *metric) each(m core.Metrics, put func(value float64, labels ...string)) {
	switch {
	case x.device != nil:
		for _, d := range m.Devices {
			put(x.device(d), d.Device.String())
		}
	case x.move != nil:
		for _, v := range m.Moves {
			put(x.move(v), v.From.String(), v.To.String(), v.Mechanism)
		}
	default:
		x.all(m, put)
	}
}
