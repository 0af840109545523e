package metrics_test

import (
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/metrics"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{
		"NewCollector": metrics.NewCollector, "NewCollectorOf": metrics.NewCollectorOf, "Handler": metrics.Handler, "HandlerOf": metrics.HandlerOf,
		"Publish": "it changes the state of the process",
	})
}
