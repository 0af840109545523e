//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/core"
)

// PoCL ends the process where /sys is not mounted.
func TestPoCLWithoutTheFilesOfTheProcessors(t *testing.T) {
	needDriver(t, OpenCL)
	platforms, _ := driver.Platforms()
	if len(platforms) != 1 || driver.Text(platforms[0], driver.PlatformName) != pocl {
		t.Skip("the driver is not PoCL alone")
	}
	before := sysfs
	t.Cleanup(func() { sysfs = before })
	sysfs = t.TempDir()
	if _, err := list(OpenCL); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), "/sys") {
		t.Errorf("without the files: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(sysfs, "devices/system/cpu"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := list(OpenCL); err != nil {
		t.Errorf("with them: %v", err)
	}
}
