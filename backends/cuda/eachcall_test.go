//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// codeVariable is set in the child processes of TestEveryCallMayFail. Its value is the code that calls fail with.
const codeVariable = "DLX_CUDA_TEST_CODE"

// Each function of the driver fails once at each place where it is called, in programs that use everything that
// devices can do. Each code has a process of its own, since the programs mostly wait for the simulator.
func TestEveryCallMayFail(t *testing.T) {
	codes := []driver.Code{driver.OutOfMemory, driver.Unknown, driver.IllegalAddress}
	if code, err := strconv.Atoi(os.Getenv(codeVariable)); err == nil {
		everyLife(t, driver.Code(code))
		return
	}
	if testing.Short() {
		codes = codes[:1]
	}
	for _, code := range codes[1:] {
		defer coretest.Child(t, t.Name(), codeVariable+"="+strconv.Itoa(int(code)))(t)
	}
	defer coretest.Child(t, t.Name(), codeVariable+"="+strconv.Itoa(int(codes[0])), integratedVariable+"=1")(t)
	failed := append(everyLife(t, codes[0]), elsewhere...)
	for _, call := range driverCalls(t) {
		if !slices.Contains(failed, call) {
			t.Errorf("%s is called by internal/driver, but failed in no program", call)
		}
	}
}

// everyLife lets each call of each program fail with a code, and returns the functions that failed.
func everyLife(t *testing.T, code driver.Code) (failed []string) {
	sim := simulator(t)
	run := func(name string, life func(context.Context) error) {
		t.Run(fmt.Sprintf("%s with %d", name, code), func(t *testing.T) {
			failed = append(failed, coretest.EachCall{Faults: sim, Code: int(code), Life: life}.Run(t)...)
		})
	}
	if os.Getenv(integratedVariable) == "1" {
		run("integrated", kit.IntegratedLife)
		return failed
	}
	run("whole", kit.WholeLife)
	run("native events", kit.NativeEventsLife)
	run("sharing", func(ctx context.Context) error { return sharingLife(ctx, t, sim) })
	if !code.Sticky() { // a sticky code would also end the contexts of the other library
		run("importing", importingLife(t))
		p := mappedBy(t, gpusimtest.Start(t), properties{handles: posixFD}, 1)
		run("foreign", func(ctx context.Context) error { return foreignLife(ctx, t, p) })
	}
	return failed
}

// elsewhere has the functions that fail in other tests.
var elsewhere = []string{
	"cuInit",             // TestTheDriverMayNotStart
	"cuDeviceGetUuid_v2", // TestADeviceThatCannotBeDescribed, since a process describes a device once
	// TestACodeThatTheDriverDoesNotKnow
	"cuGetErrorName", "cuGetErrorString",
	"cuMemHostRegister", "cuMemHostGetDevicePointer", "cuMemHostUnregister", // IntegratedLife, in a process of its own
	// tests of interop/gl
	"cuGraphicsGLRegisterBuffer", "cuGraphicsMapResources", "cuGraphicsResourceGetMappedPointer",
	"cuGraphicsUnmapResources", "cuGraphicsUnregisterResource",
}

//go:embed internal/driver/*.go internal/driver/*.h
var driverSources embed.FS

// driverCalls returns the functions of the driver that internal/driver calls in C. It does not know those that
// gorgonia.org/cu calls; they fail in the programs too.
func driverCalls(t *testing.T) (all []string) {
	t.Helper()
	files, err := driverSources.ReadDir("internal/driver")
	if err != nil {
		t.Fatal(err)
	}
	call := regexp.MustCompile(`\b(cu[A-Z]\w+)\(`)
	for _, f := range files {
		text, err := driverSources.ReadFile("internal/driver/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllSubmatch(text, -1) {
			all = append(all, string(m[1]))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// initVariable is set in the child process in which cuInit fails.
const initVariable = "DLX_CUDA_TEST_INIT"

// A process calls cuInit only once, so the test has a process of its own.
func TestTheDriverMayNotStart(t *testing.T) {
	sim := simulator(t)
	if os.Getenv(initVariable) == "" {
		coretest.Child(t, t.Name(), initVariable+"=1")(t)
		return
	}
	sim.Fail("cuInit", 1, int(driver.SystemDriverMismatch))
	b := New()
	for range 2 {
		if p := b.Probe(t.Context()); p.Available || !strings.Contains(p.Reason, "cuInit: incompatible version (code 803)") {
			t.Errorf("Probe: %+v", p)
		}
		_, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceCUDA})
		wantError(t, err, core.ErrVersion, "Open")
	}
	if n := sim.Count("cuInit"); n != 1 {
		t.Errorf("cuInit was called %d times", n)
	}
}

func TestADeviceThatCannotBeDescribed(t *testing.T) {
	sim := simulator(t)
	if os.Getenv(initVariable) == "" {
		coretest.Child(t, t.Name(), initVariable+"=1")(t)
		return
	}
	sim.Fail("cuDeviceGetUuid_v2", 1, int(driver.Unknown))
	_, err := New().Open(t.Context(), core.DeviceID{Type: core.DeviceCUDA})
	var e *core.Error
	if !errors.As(err, &e) || e.Call != "cuDeviceGetUuid_v2" || e.Code != int64(driver.Unknown) {
		t.Errorf("Open: %v", err)
	}
}

func TestACodeThatTheDriverDoesNotKnow(t *testing.T) {
	_ = open(t).Close()
	if got, want := driver.Code(99_999).String(), "CUDA code 99999"; got != want {
		t.Errorf("the code is %q, want %q", got, want)
	}
}
