package metrics_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/metrics"
)

// A program serves the metrics of its tensors beside its other metrics.
func ExampleNewCollector() {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector())

	ctx := context.Background()
	device, err := cpu.New().Open(ctx, core.CPU)
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	x, err := core.FromSlice([]float32{1, 2, 3, 4})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	y, report, err := exchange.To(ctx, x, device, exchange.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer y.Close()

	n, err := testutil.GatherAndCount(registry, "dlx_moved_bytes_total", "dlx_tensors")
	fmt.Println(report.Mechanism, n > 0, err)
	// Output: alias true <nil>
}

// Handler needs no registry.
func ExampleHandler() {
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics.Handler())

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	fmt.Println(answer.Code, strings.Contains(answer.Body.String(), "# TYPE dlx_lost_tensors_total counter"))
	// Output: 200 true
}
