//go:build gl && linux && cgo

package gl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/dl/dltest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestADriverThatTakesOverSignals(t *testing.T) {
	needDriver(t)
	if os.Getenv(dltest.LibraryVariable) != "" {
		dltest.WantPanics(t, func() core.Device { return openAs(t, asGPU) })
		return
	}
	taking := []string{
		"eglQueryDevicesEXT", "eglGetPlatformDisplayEXT", "eglInitialize", "eglBindAPI", "eglCreateContext",
		"eglMakeCurrent", "eglDestroyContext", "eglReleaseThread", "glCreateShaderProgramv", "glDispatchCompute",
	}
	folder := filepath.Dir(dltest.Hijack(t, "libEGL.so.1", taking, []string{"eglGetError", "eglQueryString"}))
	coretest.Child(t, t.Name(),
		"LD_LIBRARY_PATH="+strings.TrimRight(folder+":"+os.Getenv("LD_LIBRARY_PATH"), ":"),
		dltest.LibraryVariable+"="+dltest.System(t, "libEGL.so.1"))(t)
}
