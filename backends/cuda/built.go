//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"time"

	"github.com/dlx-go/dlx/backends/cuda/internal/cufile"
	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
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
	Limits:       gpucopy.CUDALimits(),
	Files:        files{},
})

func kernels(x cudalike.Description) []string {
	return gpucopy.CUDAImages(x.Major, x.Minor, x.Integrated)
}

// files is cuFile.
type files struct{}

func (files) Check() error { return cufile.Check() }

func (files) Do(c cudalike.Context, f func()) cudalike.Status { return driver.Do(c, f) }

func (files) Open(fd int) (cudalike.File, error) {
	library, err := cufile.Load()
	if err != nil {
		return nil, err
	}
	f, err := library.Register(fd)
	if err != nil { // not a nil *File in an interface
		return nil, err
	}
	return f, nil
}

func newBackend() core.Backend { return backend }

func trimPools() { backend.TrimPools() }

func openTimer(ctx context.Context, d core.Device, t *cudalike.Timer) error {
	return backend.OpenTimer(ctx, d, t)
}

func registerGLBuffer(run func(func()), d core.Device, buffer uint32, access cudalike.GLAccess, g *cudalike.GLBuffer) error {
	return backend.RegisterGLBuffer(run, d, buffer, access, g)
}
