package engine

import (
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/backends/metal/internal/fake"
	"github.com/dlx-go/dlx/core"
)

func TestConformance(t *testing.T) {
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			v, b := machine(t, c)
			backendtest.Run(t, func(tb testing.TB) core.Device { return open(tb, b, 0) },
				backendtest.Options{Peer: func(tb testing.TB) core.Device { return open(tb, b, 1) }, Pointer: func(tb testing.TB, d core.Device, size int64) uintptr {
					id := v.NewBuffer(d.(*device).id, uint64(size), driver.StoragePrivate)
					tb.Cleanup(func() { v.Release(id) })
					return uintptr(id)
				}})
		})
	}
}

func TestRandomProgramsAgreeWithTheHost(t *testing.T) {
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			_, b := machine(t, c)
			backendtest.Programs(t, func(tb testing.TB) core.Device { return open(tb, b, 0) }, 100, backendtest.Options{})
		})
	}
}

func TestCloseEndsWhileOthersOpen(t *testing.T) {
	_, b := machine(t, fake.Config{})
	backendtest.ClosesUnderLoad(t, func(tb testing.TB) core.Device { return open(tb, b, 0) })
}
