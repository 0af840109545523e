//go:build opencl && linux && cgo

package opencl_test

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/opencl"
	"github.com/dlx-go/dlx/core"
)

func TestProbeAndDevices(t *testing.T) {
	open(t).Close()
	b := opencl.New()
	p := b.Probe(t.Context())
	if !strings.HasPrefix(p.Version, "OpenCL ") || p.Reason != "" || len(p.Features) == 0 {
		t.Errorf("Probe: %+v", p)
	}
	all, err := b.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := b.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range all {
		if d.ID != (core.DeviceID{Type: core.DeviceOpenCL, Index: int32(i)}) || d.Name == "" || d.Driver == "" || d.TotalMemory <= 0 || again[i].Name != d.Name {
			t.Errorf("device %d: %+v", i, d)
		}
	}
	for _, id := range []core.DeviceID{core.CPU, {Type: core.DeviceOpenCL, Index: -1}, {Type: core.DeviceOpenCL, Index: int32(len(all))}} {
		_, err := b.Open(t.Context(), id)
		want(t, err, core.ErrDevice, id.String())
	}
}

// The library is opened when it is needed: a program that was built with it starts
// without it.
func TestTheProgramLinksNoLibrary(t *testing.T) {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range libraries {
		if strings.Contains(l, "OpenCL") {
			t.Errorf("the program needs %s to start", l)
		}
	}
}

// probeVariable makes a copy of this test probe and print why there is no OpenCL.
const probeVariable = "DLX_TEST_PROBE_OPENCL"

func TestProbeSaysWhatIsMissing(t *testing.T) {
	if os.Getenv(probeVariable) != "" {
		b := opencl.New()
		p := b.Probe(t.Context())
		_, devices := b.Devices(t.Context())
		_, opened := b.Open(t.Context(), first)
		if p.Available || p.Reason == "" || devices == nil || opened == nil {
			t.Fatalf("Probe %+v, Devices: %v, Open: %v; want reasons", p, devices, opened)
		}
		if typed := (*core.Error)(nil); !errors.As(opened, &typed) {
			t.Errorf("Open: error %v is no *core.Error", opened)
		}
		t.Logf("reason: %s", p.Reason)
		return
	}
	for name, c := range map[string]struct{ setting, want string }{
		"no library":                {"DLX_OPENCL_LIBRARY=/nowhere/libOpenCL.so.1", "/nowhere/libOpenCL.so.1"},
		"a library of another kind": {"DLX_OPENCL_LIBRARY=libm.so.6", "clGetPlatformIDs"},
		"no driver":                 {"OCL_ICD_VENDORS=/nowhere", "CL_PLATFORM_NOT_FOUND_KHR"},
	} {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestProbeSaysWhatIsMissing$", "-test.v")
		cmd.Env = append(os.Environ(), probeVariable+"=1", c.setting)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: want a reason with %q, got error %v and\n%s", name, c.want, err, out)
		}
	}
}
