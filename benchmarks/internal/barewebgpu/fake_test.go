//go:build linux && cgo

package barewebgpu

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// A map that fails, or whose callback comes late, leaves nothing that calls back after Download, which returns the call. The library
// of the test ends the process otherwise.
func TestAFailedMapLeavesNothing(t *testing.T) {
	library := filepath.Join(t.TempDir(), "libfake.so")
	if out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-o", library, "testdata/fake.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("DLX_WEBGPU_LIBRARY", library)
	host, err := coretest.Keep(t)(core.FromSlice(make([]byte, 64))).Address()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		device uintptr
		rule   string
		call   string
	}{
		{1, "called back by wgpuBufferUnmap", "wgpuBufferMapAsync"},
		{2, "called back after the release of the buffer", "wgpuBufferMapAsync"},
		{3, "refused", "wgpuBufferMapAsync"},
		{4, "without an address", "wgpuBufferGetConstMappedRange"},
	} {
		l, err := Open(c.device)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var typed *core.Error
			took, err := l.Download(host, 1, 0, 64, 3)
			if took != 0 || !errors.As(err, &typed) || !errors.Is(err, core.ErrInvalid) || typed.Call != c.call {
				t.Errorf("a map that is %s: %v, error %v", c.rule, took, err)
			}
		}
		l.Close()
	}
}
