//go:build oneapi && linux && cgo

package oneapi_test

import (
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/core"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, open, backendtest.Options{Pointer: func(tb testing.TB, d core.Device, size int64) uintptr {
		tb.Helper()
		l := libraryOf(tb, d)
		if s := driver.RetainContext(l.context); s != driver.Success { // the device may be closed before the memory is freed
			tb.Fatal(s)
		}
		tb.Cleanup(func() { driver.ReleaseContext(l.context) })
		return l.alloc(tb, driver.USMDevice, size)
	}})
}

func TestRandomProgramsAgreeWithTheHost(t *testing.T) {
	backendtest.Programs(t, open, 1000, backendtest.Options{})
}

func TestCloseEndsWhileOthersOpen(t *testing.T) { backendtest.ClosesUnderLoad(t, open) }
