//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"testing"

	"github.com/dlx-go/dlx/backends/cuda/internal/link"
	"github.com/dlx-go/dlx/backends/internal/cudalike/cudaliketest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
)

func TestMain(m *testing.M) { coretest.Main(m) }

var kit = &cudaliketest.Kit{
	New: New, Type: core.DeviceCUDA, Control: gpusim.Open,
	Host: core.DeviceCUDAHost, Managed: core.DeviceCUDAManaged, Default: backend.ThreadStream,
	NewTimer: func(ctx context.Context, d core.Device) (cudaliketest.Timer, error) { return NewTimer(ctx, d) },
	Install:  "NVIDIA's driver, or name the simulated one in " + link.LibraryVariable + " (make gpusim)",
}

// Short names for helpers that the tests of all backends use.
var (
	keep        = coretest.Keep
	row         = coretest.Row
	pattern     = coretest.Pattern
	put         = coretest.Put
	get         = coretest.Get
	wantError   = coretest.WantError
	descriptors = coretest.Descriptors

	open        = kit.Open
	opened      = kit.Opened
	second      = kit.Second
	simulator   = kit.Simulator
	closedAtEnd = cudaliketest.ClosedAtEnd
	wantLive    = cudaliketest.WantLive
	newStream   = cudaliketest.NewStream
	foreign     = cudaliketest.Foreign
	view        = cudaliketest.View
	viewFrom    = cudaliketest.ViewFrom
)
