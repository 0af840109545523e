package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlx-go/dlx/core"
)

func init() { table = append(table, remoteTable...) }

// remoteTable has the metrics of package remote.
var remoteTable = []metric{
	ofRemote("dlx_remote_connections_total", counter, "Connections to other machines that were made.", func(s core.RemoteMetrics) int64 { return s.Connections }),
	ofRemote("dlx_remote_open_connections", gauge, "Connections to other machines that are open.", core.RemoteMetrics.OpenConnections),
	ofRemote("dlx_remote_refused_total", counter, "Peers of listeners that have not proved who they are, or use another version.", func(s core.RemoteMetrics) int64 { return s.Refused }),
	counts("dlx_remote_ended_connections_total", "Connections that have ended, by the reason.", "reason", func(s core.RemoteMetrics) []core.RemoteCount { return s.Ended }),
	counts("dlx_remote_transport_connections_total", "Connections that have used a transport of UCX.", "transport", func(s core.RemoteMetrics) []core.RemoteCount { return s.Transports }),
	ofRemote("dlx_remote_sent_tensors_total", counter, "Tensors that were sent to other machines.", func(s core.RemoteMetrics) int64 { return s.Sent }),
	ofRemote("dlx_remote_received_tensors_total", counter, "Tensors that were received from other machines.", func(s core.RemoteMetrics) int64 { return s.Received }),
	ofRemote("dlx_remote_sent_bytes_total", counter, "Bytes of elements that were sent, also for requests.", func(s core.RemoteMetrics) int64 { return s.BytesSent }),
	ofRemote("dlx_remote_received_bytes_total", counter, "Bytes of elements that were received, also for requests.", func(s core.RemoteMetrics) int64 { return s.BytesReceived }),
	ofRemote("dlx_remote_copied_bytes_total", counter, "Bytes that were copied between devices or strided tensors and UCX.", func(s core.RemoteMetrics) int64 { return s.BytesCopied }),
	ofRemote("dlx_remote_served_requests_total", counter, "Requests of peers that were fulfilled.", func(s core.RemoteMetrics) int64 { return s.Served }),
	ofRemote("dlx_remote_refused_requests_total", counter, "Requests of peers that were refused, or have failed.", func(s core.RemoteMetrics) int64 { return s.RequestsRefused }),
	ofRemote("dlx_remote_dropped_messages_total", counter, "Data messages that nobody waited for.", func(s core.RemoteMetrics) int64 { return s.Dropped }),
	ofRemote("dlx_remote_ended_leases_total", counter, "Offers that ended because their lease was over.", func(s core.RemoteMetrics) int64 { return s.Leases }),
	ofRemote("dlx_remote_in_flight_tensors", gauge, "Tensors that were sent, and that the peer has not received.", func(s core.RemoteMetrics) int64 { return s.InFlight }),
	ofRemote("dlx_remote_waiting_tensors", gauge, "Tensors that have begun to arrive, and were not received.", func(s core.RemoteMetrics) int64 { return s.Waiting }),
	ofRemote("dlx_remote_offers", gauge, "Offers that are open.", func(s core.RemoteMetrics) int64 { return s.Offers }),
}

// ofRemote is a metric of package remote. A program that has made no connection and no offer does not have it.
func ofRemote(name string, kind prometheus.ValueType, help string, value func(core.RemoteMetrics) int64) metric {
	return metric{name: name, help: help, kind: kind, all: func(m core.Metrics, put func(float64, ...string)) {
		if s := m.Remote; s.Connections > 0 || s.Refused > 0 || s.Offers > 0 || s.Leases > 0 {
			put(float64(value(s)))
		}
	}}
}

// counts is a metric of package remote with a label.
func counts(name, help, label string, values func(core.RemoteMetrics) []core.RemoteCount) metric {
	return metric{name: name, help: help, kind: counter, labels: []string{label}, all: func(m core.Metrics, put func(float64, ...string)) {
		for _, e := range values(m.Remote) {
			put(float64(e.Count), e.Name)
		}
	}}
}
