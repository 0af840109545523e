package metrics

import (
	"expvar"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dlx-go/dlx/core"
)

// NewCollector returns a collector of the metrics of this process. It reads them when it is asked, and keeps nothing.
// All collectors describe the same metrics, so that a registry takes only one. A collector is safe for concurrent
// use.
func NewCollector() prometheus.Collector { return NewCollectorOf(core.ReadMetrics) }

// NewCollectorOf is like NewCollector, but has the metrics that read returns, such as those of several processes. read
// is called from any goroutine, also concurrently.
func NewCollectorOf(read func() core.Metrics) prometheus.Collector {
	c := collector{read, make([]*prometheus.Desc, len(table))}
	for i, x := range table {
		c.descriptions[i] = prometheus.NewDesc(x.name, x.help, x.labels, nil)
	}
	return c
}

// collector has the description of each metric of the table.
type collector struct {
	read         func() core.Metrics
	descriptions []*prometheus.Desc
}

var _ prometheus.Collector = collector{}

// Describe sends the descriptions.
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range c.descriptions {
		descriptions <- d
	}
}

// Collect reads the metrics and sends them.
func (c collector) Collect(values chan<- prometheus.Metric) {
	m := c.read()
	for i := range table {
		table[i].each(m, func(value float64, labels ...string) {
			values <- prometheus.MustNewConstMetric(c.descriptions[i], table[i].kind, value, labels...)
		})
	}
}

// Handler returns a handler of HTTP that serves the metrics to Prometheus, in the text format or, if the client asks
// for that, in OpenMetrics. It serves no other metrics of the program: to serve all together, register NewCollector
// with the program's registry. The handler tells whoever may connect what the program does: listen on a loopback
// address, or behind an authentication.
func Handler() http.Handler { return HandlerOf(core.ReadMetrics) }

// HandlerOf is like Handler, but serves the metrics that read returns, as [NewCollectorOf] collects them.
func HandlerOf(read func() core.Metrics) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollectorOf(read))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// publishing makes Publish look and publish in one step.
var publishing sync.Mutex

// Publish publishes the metrics as a variable of package expvar, which a program shows as /debug/vars. The variable
// has the JSON of [core.Metrics]. It cannot be taken back. Publish returns core.ErrInvalid if name is empty, and
// core.ErrExists if there is a variable of that name.
func Publish(name string) error {
	if name == "" {
		return core.Errorf(core.ErrInvalid, "metrics", "Publish", "the name is empty")
	}
	publishing.Lock()
	defer publishing.Unlock()
	if expvar.Get(name) != nil { // expvar itself would panic
		return core.Errorf(core.ErrExists, "metrics", "Publish", "there is a variable %q already", name)
	}
	expvar.Publish(name, expvar.Func(func() any { return core.ReadMetrics() }))
	return nil
}
