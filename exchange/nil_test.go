package exchange_test

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

func TestNilArguments(t *testing.T) {
	sound := coretest.Keep(t)(core.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
	device := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Log: t.Logf})
	coretest.CheckNils(t, map[string]any{
		"AllocFor": exchange.AllocFor, "To": exchange.To, "Open": exchange.Open, "Plan": exchange.Plan, "ToAll": exchange.ToAll,
		"nil Route": (*exchange.Route)(nil), "zero Route": new(exchange.Route), "Report": exchange.Report{}, "NoWayError": new(exchange.NoWayError),
	}, sound, device, []*core.Tensor{sound, nil})
}
