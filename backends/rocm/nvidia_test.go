//go:build rocm && linux && cgo && amd64

package rocm

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/rocm/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// HIP's headers for NVIDIA build a library with all that dlx cannot do without. Over NVIDIA's own libcudart and without
// NVIDIA's driver it says that there is no card.
func TestHIPOverCUDAWithoutACard(t *testing.T) {
	if os.Getenv(modeVariable) != "" {
		p := New().Probe(t.Context())
		if p.Available || !strings.Contains(p.Reason, "hipInit: not supported (code 100): cudaErrorNoDevice") {
			t.Errorf("%+v", p)
		}
		return
	}
	tools := os.Getenv("DLX_CUDA_TOOLS")
	if tools == "" {
		t.Skip("DLX_CUDA_TOOLS does not say where CUDA's headers and libcudart are (make setup)")
	}
	folder := t.TempDir()
	wrapper := filepath.Join(folder, "libdlxhip-nvidia.so")
	if out, err := exec.Command("internal/driver/nvidia/build.sh", wrapper).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("sh", "-c", "ldconfig -p | grep libcuda.so.1").Output(); err == nil {
		t.Skipf("this machine may have a card: it has %s", out)
	}
	if err := os.Symlink(filepath.Join(tools, "cuda_runtime/lib/libcudart.so.12"), filepath.Join(folder, "libcudart.so.12")); err != nil {
		t.Fatal(err)
	}
	coretest.Child(t, t.Name(), driver.LibraryVariable+"="+wrapper, modeVariable+"=no card")(t)
}

// For HIP over CUDA the kernels go to the library as they are, and not to a compiler of HIP. The simulated library
// does not take them.
func TestPTXIsNotCompiled(t *testing.T) {
	kit.Simulator(t)
	if os.Getenv(modeVariable) == "" {
		coretest.Child(t, t.Name(), modeVariable+"=ptx", "DLX_GPUSIM_HIP_ARCH=sm_90")(t)
		return
	}
	d := kit.Opened(t)
	l := coretest.Life{Context: t.Context()}
	matrix := func() *core.Tensor {
		return l.Tensor(core.Empty(t.Context(), d, core.TypeFloat32, []int64{64, 64}, core.AllocOptions{}))
	}
	a, b := matrix(), matrix()
	err := d.Copy(t.Context(), nil, b, l.Tensor(a.Transpose()))
	var e *core.Error
	if coretest.WantError(t, err, core.ErrNotSupported, "a strided copy"); !errors.As(err, &e) || e.Call != "hipModuleLoadData" {
		t.Errorf("%v, want an error of hipModuleLoadData", err)
	}
	if err := l.End(); err != nil {
		t.Error(err)
	}
}
