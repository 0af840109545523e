package otel_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/interop/otel"
)

// A program records its moves. Usually the exporter sends the spans to a collector.
func Example() {
	ctx := context.Background()
	exporter := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	tracer := otel.NewTracer(provider)

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
	y, _, err := exchange.To(ctx, x, device, exchange.Options{Tracer: tracer})
	if err != nil {
		log.Fatal(err)
	}
	defer y.Close()

	for _, span := range exporter.GetSpans() {
		fmt.Println(span.Name)
		for _, a := range span.Attributes {
			if a.Key == "dlx.bytes" || a.Key == "dlx.mechanism" {
				fmt.Println(a.Key, a.Value.AsInterface())
			}
		}
	}
	if err := provider.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// exchange.To
	// dlx.bytes 16
	// dlx.mechanism alias
}
