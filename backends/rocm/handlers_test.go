//go:build rocm && linux && cgo

package rocm

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/backends/internal/dl/dltest"
	"github.com/dlx-go/dlx/backends/rocm/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// There is no machine code for the architecture, so the compiler works, too.
func TestADriverThatTakesOverSignals(t *testing.T) {
	_ = kit.Open(t).Close()
	if os.Getenv(dltest.LibraryVariable) != "" {
		dltest.WantPanics(t, func() core.Device { return kit.Open(t) })
		return
	}
	taking := []string{
		"hipInit", "hipGetDeviceCount", "hipDeviceGetName", "hipStreamCreateWithFlags", "hipModuleLoadData", "hipModuleGetFunction",
		"hipModuleLaunchKernel", "hipModuleUnload", "hiprtcVersion", "hiprtcCreateProgram", "hiprtcCompileProgram", "hiprtcDestroyProgram",
	}
	library := os.Getenv(driver.LibraryVariable)
	if library == "" {
		library = dltest.System(t, "libamdhip64.so")
	}
	has, err := dl.Open("rocm", library)
	if err != nil {
		t.Fatal(err)
	}
	defer has.Close()
	functions, err := os.ReadFile("internal/driver/functions.h")
	if err != nil {
		t.Fatal(err)
	}
	var others []string
	for _, m := range regexp.MustCompile(`\bX\w*\((hip\w+)`).FindAllSubmatch(functions, -1) {
		if name := string(m[1]); has.Lookup(name) != 0 && !slices.Contains(taking, name) && !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	taking = slices.DeleteFunc(taking, func(name string) bool { return has.Lookup(name) == 0 }) // the compiler may be another library
	coretest.Child(t, t.Name(), "DLX_GPUSIM_HIP_ARCH=gfx942:sramecc+:xnack-",
		driver.LibraryVariable+"="+dltest.Hijack(t, "libamdhip64.so", taking, others),
		dltest.LibraryVariable+"="+library)(t)
}
