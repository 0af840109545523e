//go:build (opencl || oneapi) && linux && cgo && !race && !asan

package clcore

import (
	"errors"
	"os"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/dl/dltest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// limitedVariable makes a process of the test binary limit its memory before the driver starts.
const limitedVariable = "DLX_TEST_LIMITED"

// PoCL ends the process where it gets no threads.
func TestADriverWithoutRoomForItsThreads(t *testing.T) {
	if os.Getenv(limitedVariable) == "" {
		needDriver(t, OpenCL)
		coretest.Child(t, t.Name(), limitedVariable+"=1")(t)
		return
	}
	if err := driver.Load(); err != nil {
		t.Fatal(err)
	}
	platforms, _ := driver.Platforms()
	if len(platforms) != 1 || driver.Text(platforms[0], driver.PlatformName) != pocl {
		t.Skip("the driver is not PoCL alone")
	}
	end := dltest.LimitMemory(t, 12<<20)
	_, err := list(OpenCL)
	end()
	if !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("with 12 MB of room: error %v, want %q", err, core.ErrOutOfMemory)
	}
	if _, err := list(OpenCL); err != nil {
		t.Errorf("with room: %v", err)
	}
}
