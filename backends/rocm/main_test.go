//go:build rocm && linux && cgo

package rocm

import (
	"context"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/cudalike/cudaliketest"
	"github.com/dlx-go/dlx/backends/rocm/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
)

func TestMain(m *testing.M) { coretest.Main(m) }

var kit = &cudaliketest.Kit{
	New: New, Type: core.DeviceROCM, Control: gpusim.OpenHIP,
	Host:     core.DeviceROCMHost,
	NewTimer: func(ctx context.Context, d core.Device) (cudaliketest.Timer, error) { return NewTimer(ctx, d) },
	Install:  "AMD's driver and ROCm, or name the simulated library in " + driver.LibraryVariable + " (make gpusim)",
}

func first(t testing.TB) core.Device { return kit.Open(t) }
