//go:build cuda && linux && cgo

package cuda

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/cuda/internal/link"
	"github.com/dlx-go/dlx/backends/internal/dl/dltest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestADriverThatTakesOverSignals(t *testing.T) {
	_ = open(t).Close()
	if os.Getenv(dltest.LibraryVariable) != "" {
		dltest.WantPanics(t, func() core.Device { return open(t) })
		return
	}
	taking := []string{
		"cuInit", "cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel", "cuModuleUnload",
		"cuStreamCreate",
		"cuDevicePrimaryCtxRelease_v2",
	}
	symbols, err := os.ReadFile("internal/link/symbols.h")
	if err != nil {
		t.Fatal(err)
	}
	var others []string
	for _, m := range regexp.MustCompile(`\bX\((cu\w+)\)`).FindAllSubmatch(symbols, -1) {
		if name := string(m[1]); !slices.Contains(taking, name) {
			others = append(others, name)
		}
	}
	library := os.Getenv(link.LibraryVariable)
	if library == "" {
		library = dltest.System(t, "libcuda.so.1")
	}
	coretest.Child(t, t.Name(),
		link.LibraryVariable+"="+dltest.Hijack(t, "libcuda.so.1", taking, others),
		dltest.LibraryVariable+"="+library)(t)
}
