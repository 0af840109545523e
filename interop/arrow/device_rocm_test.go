//go:build rocm && linux && cgo

package arrow

import (
	"testing"

	"github.com/dlx-go/dlx/backends/rocm"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
)

func TestDeviceEventsROCM(t *testing.T) {
	testDeviceEvents(t, rocm.New(), core.DeviceROCM, gpusim.OpenHIP)
}
