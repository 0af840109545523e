//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"time"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/gather"
	"github.com/dlx-go/dlx/core"
)

// backend is the one backend of the process, which has one driver.
var backend = cudalike.New(driver.Driver, cudalike.Facts{
	API:          "CUDA",
	Visible:      "whether CUDA_VISIBLE_DEVICES hides it",
	Device:       core.DeviceCUDA,
	Host:         core.DeviceCUDAHost,
	Managed:      core.DeviceCUDAManaged,
	Vendor:       core.VendorNVIDIA,
	LegacyStream: 1,                     // CU_STREAM_LEGACY
	ThreadStream: 2,                     // CU_STREAM_PER_THREAD
	ClockStep:    500 * time.Nanosecond, // cuEventElapsedTime
	Kernels:      kernels,
	Limits:       gather.CUDALimits(),
})

func kernels(x cudalike.Description) []string {
	return gather.CUDAImages(x.Major, x.Minor, x.Integrated)
}

func newBackend() core.Backend { return backend }

func trimPools() { backend.TrimPools() }

func openTimer(ctx context.Context, d core.Device, t *cudalike.Timer) error {
	return backend.OpenTimer(ctx, d, t)
}

func registerGLBuffer(run func(func()), d core.Device, buffer uint32, access cudalike.GLAccess, g *cudalike.GLBuffer) error {
	return backend.RegisterGLBuffer(run, d, buffer, access, g)
}
