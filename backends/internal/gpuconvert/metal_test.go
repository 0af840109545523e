//go:build vulkan && linux && cgo

package gpuconvert_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/backends/internal/gpucopy/gpucopytest"
	"github.com/dlx-go/dlx/core/coretest"
)

func clang(t *testing.T) string {
	t.Helper()
	const name = "clang-15"
	if _, err := exec.LookPath(name); err != nil {
		coretest.NeedDriver(t, err.Error(), name)
	}
	return name
}

func compileMSL(t *testing.T, text string) *gpucopytest.Host {
	t.Helper()
	h, err := gpucopytest.CompileConverterMSL(t.TempDir(), clang(t), text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// As far as clang can tell, Metal's compiler takes the text.
func TestMSLHasWhatMetalHas(t *testing.T) {
	if err := gpucopytest.CheckMSL(t.TempDir(), clang(t), gpuconvert.MSL()); err != nil {
		t.Error(err)
	}
}

// The text for Metal, compiled for the host, has its bits.
func TestMSL(t *testing.T) { checkBits(t, compileMSL(t, gpuconvert.MSL()).Convert) }

// A compiler that rounds a product and a sum together shows: the test above would find it.
func TestMSLThatRoundsOnceHasOtherBits(t *testing.T) {
	const product, sum = "MUL(FLOAT(x), CHANNEL(scale, c))", "ADD(product, CHANNEL(offset, c))"
	if text := gpuconvert.MSL(); strings.Count(text, product) != 1 || strings.Count(text, sum) != 1 {
		t.Fatal("the text has other products and sums")
	}
	once := strings.Replace(gpuconvert.MSL(), sum, "__builtin_fmaf(FLOAT(x), CHANNEL(scale, c), CHANNEL(offset, c))", 1)
	checkRounds(t, compileMSL(t, once).Convert)
}
