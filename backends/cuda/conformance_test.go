//go:build cuda && linux && cgo

package cuda

import (
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/core"
)

func first(tb testing.TB) core.Device  { return open(tb) }
func second(tb testing.TB) core.Device { return open(tb, 1) }

func TestConformance(t *testing.T) { backendtest.Run(t, first, backendtest.WithPeer(second)) }

func TestRandomProgramsAgreeWithTheHost(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 500
	}
	backendtest.Programs(t, func(tb testing.TB) core.Device { return open(tb) }, n)
}
