//go:build rocm && linux && cgo

package rocm

import (
	"context"
	"time"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/rocm/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// backend is the one backend of the process, which has one library of HIP.
var backend = cudalike.New(driver.Driver, cudalike.Facts{
	API:         "HIP",
	Visible:     "whether HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES hides it, and the right to open /dev/kfd (groups render and video)",
	Device:      core.DeviceROCM,
	Host:        core.DeviceROCMHost,
	Vendor:      core.VendorAMD,
	ClockStep:   time.Microsecond, // hipEventElapsedTime
	NoPeerBoxes: true,
	Kernels:     func(x cudalike.Description) []string { return gpucopy.HIPImages(x.Arch) },
	Limits:      gpucopy.HIPLimits(),
})

func newBackend() core.Backend { return backend }

func trimPools() { backend.TrimPools() }

func openTimer(ctx context.Context, d core.Device, t *cudalike.Timer) error {
	return backend.OpenTimer(ctx, d, t)
}
