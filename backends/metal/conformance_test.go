//go:build metal && darwin

package metal_test

import (
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/backends/metal"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/backends/metal/internal/objc"
	"github.com/dlx-go/dlx/core"
)

// The tests of this file need a Mac with Metal. make mac-kit builds a program of them.

func open(tb testing.TB, index int32) core.Device {
	tb.Helper()
	d, err := metal.New().Open(tb.Context(), core.DeviceID{Type: core.DeviceMetal, Index: index})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func first(tb testing.TB) core.Device { return open(tb, 0) }

func TestConformance(t *testing.T) {
	v, err := objc.Open()
	if err != nil {
		t.Fatal(err)
	}
	options := backendtest.Options{Pointer: func(tb testing.TB, d core.Device, size int64) uintptr {
		device, err := metal.DeviceOf(d)
		if err != nil {
			tb.Fatal(err)
		}
		buffer := v.NewBuffer(driver.ID(device), uint64(size), driver.StoragePrivate)
		tb.Cleanup(func() { v.Release(buffer) })
		return uintptr(buffer)
	}}
	if all, err := metal.New().Devices(t.Context()); err != nil {
		t.Fatal(err)
	} else if len(all) > 1 {
		options.Peer = func(tb testing.TB) core.Device { return open(tb, 1) }
	}
	backendtest.Run(t, first, options)
}

func TestRandomProgramsAgreeWithTheHost(t *testing.T) {
	backendtest.Programs(t, first, 1000, backendtest.Options{})
}

func TestCloseEndsWhileOthersOpen(t *testing.T) { backendtest.ClosesUnderLoad(t, first) }
