//go:build cuda && linux && cgo

package arrow

import (
	"testing"

	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
)

func TestDeviceEventsCUDA(t *testing.T) {
	testDeviceEvents(t, cuda.New(), core.DeviceCUDA, gpusim.Open)
}
