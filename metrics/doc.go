// Package metrics shows what [core.ReadMetrics] counts to other programs: as metrics of Prometheus, and as a
// variable of package expvar.
//
//	registry := prometheus.NewRegistry()
//	registry.MustRegister(metrics.NewCollector())
//
// A program without a registry of its own serves [Handler]. [Publish] adds the metrics to /debug/vars. Importing the
// package registers nothing. All counts are of this process, and begin when it starts. docs/metrics.md lists them.
package metrics
