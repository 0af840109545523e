package cpu_test

import (
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
)

func open(tb testing.TB) core.Device {
	tb.Helper()
	d, err := cpu.New().Open(tb.Context(), core.CPU)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) { backendtest.Run(t, open, backendtest.Options{}) }

func TestCloseEndsWhileOthersOpen(t *testing.T) { backendtest.ClosesUnderLoad(t, open) }
