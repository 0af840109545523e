//go:build cuda && linux && cgo

package tensorfile_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/tensorfile"
)

// cuFileVariable says in a process with the fake for cuFile which of its calls fails.
const cuFileVariable = "DLX_TENSORFILE_TEST_CUFILE"

// The simulated driver of CUDA and the fake for cuFile, which fails as the API's reference describes.
func TestLoadByCuFile(t *testing.T) {
	driver := os.Getenv("DLX_CUDA_LIBRARY")
	if driver == "" {
		t.Skip("DLX_CUDA_LIBRARY does not name the simulated driver (make gpusim)")
	}
	if which := os.Getenv(cuFileVariable); which != "" {
		loadByCuFile(t, which)
		return
	}
	library := filepath.Join(t.TempDir(), "libcufile.so.0")
	if out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-o", library, "../backends/cuda/internal/cufile/testdata/fake.c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	for which, env := range map[string][]string{
		"nothing":  nil,
		"short":    {"DLX_CUFILE_FAULT=5"},
		"library":  {"DLX_CUFILE_LIBRARY=/nonexistent/libcufile.so.0"},
		"open":     {"DLX_CUFILE_OPEN=5033"},
		"register": {"DLX_CUFILE_FAULT=2", "DLX_CUFILE_CODE=5008"},
		"number":   {"DLX_CUFILE_FAULT=3", "DLX_CUFILE_CODE=5"}, // EIO
		"code":     {"DLX_CUFILE_FAULT=4", "DLX_CUFILE_CODE=5009"},
	} {
		env = append([]string{cuFileVariable + "=" + which, "DLX_CUFILE_DRIVER=" + driver, "DLX_CUFILE_LIBRARY=" + library}, env...)
		t.Run(which, coretest.Child(t, t.Name(), env...))
	}
}

func loadByCuFile(t *testing.T, which string) {
	d, err := all.New().Open(t.Context(), core.DeviceID{Type: core.DeviceCUDA})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	path := mixed(t, t.TempDir())
	forced := tensorfile.LoadOptions{Read: tensorfile.ReadCUFile, Budget: 1 << 20}
	switch which {
	case "nothing", "short":
		l := load(t, path, d, forced)
		checkLoaded(t, path, d, l)
		if r := l.Report; r.Files[0].Read != tensorfile.ReadCUFile || r.ByDevice < r.Bytes*9/10 || len(r.Refused) > 0 {
			t.Errorf("%+v", r)
		}
	case "number":
		_, err := tensorfile.Load(t.Context(), path, d, forced)
		coretest.WantError(t, err, syscall.EIO, which)
	default:
		_, err := tensorfile.Load(t.Context(), path, d, forced)
		coretest.WantError(t, err, core.ErrNotSupported, which)
	}
	if n := core.Live()["cuFile file"]; n != 0 {
		t.Errorf("%d files are open", n)
	}
	// Without nvidia-fs auto reads another way.
	if _, err := os.Stat("/proc/driver/nvidia-fs/stats"); err == nil {
		return
	}
	if r := notCached(t, d); r.Files[0].Read != tensorfile.ReadDirect || len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Reason, "nvidia-fs") {
		t.Errorf("%+v", r)
	}
}
