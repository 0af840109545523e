//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"os"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/clcore/faults"
	"github.com/dlx-go/dlx/backends/internal/dl/dltest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Intel's runtime takes over SIGSEGV and SIGBUS when it builds a program.
func TestADriverThatTakesOverSignals(t *testing.T) {
	needDriver(t, OpenCL)
	if os.Getenv(dltest.LibraryVariable) != "" {
		dltest.WantPanics(t, func() core.Device {
			d, err := variants[0].open()
			if err != nil {
				t.Fatal(err)
			}
			return d
		})
		return
	}
	taking := []string{
		"clGetPlatformIDs", "clGetDeviceIDs", "clCreateContext", "clCreateCommandQueue", "clCreateProgramWithSource",
		"clBuildProgram", "clCreateKernel", "clEnqueueNDRangeKernel", "clReleaseProgram", "clReleaseContext",
	}
	others := slices.DeleteFunc(faults.Calls(), func(name string) bool { return slices.Contains(taking, name) })
	coretest.Child(t, t.Name(),
		driver.LibraryVariable+"="+dltest.Hijack(t, "libOpenCL.so.1", taking, others),
		dltest.LibraryVariable+"="+dltest.System(t, "libOpenCL.so.1"))(t)
}
