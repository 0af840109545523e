package minimalbackend_test

import (
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/examples/minimalbackend"
)

func TestMain(m *testing.M) { coretest.Main(m) }

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(tb testing.TB) core.Device {
		d, err := minimalbackend.New().Open(tb.Context(), core.DeviceID{Type: core.DeviceExt})
		if err != nil {
			tb.Fatal(err)
		}
		return d
	})
}
