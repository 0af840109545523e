//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"embed"
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
)

// codeVariable tells the test binary that it is another process of
// TestEveryCallMayFail, and the code that its calls fail with.
const codeVariable = "DLX_CUDA_TEST_CODE"

// Each call to the driver fails once, at each of its places in lives that have all that
// devices do. Each code has a process of its own: the lives wait for the simulator's naps.
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
			t.Errorf("%s is called by internal/driver, and is in no life", call)
		}
	}
}

// everyLife has each call of each life fail with a code, and returns the calls.
func everyLife(t *testing.T, code driver.Code) (failed []string) {
	sim := simulator(t)
	run := func(name string, life func(context.Context) error) {
		t.Run(fmt.Sprintf("%s with %d", name, code), func(t *testing.T) {
			failed = append(failed, coretest.EachCall{Faults: sim, Code: int(code), Life: life}.Run(t)...)
		})
	}
	if os.Getenv(integratedVariable) == "1" {
		run("integrated", integratedLife)
		return failed
	}
	run("whole", wholeLife)
	run("sharing", func(ctx context.Context) error { return sharingLife(ctx, t, sim) })
	if !code.Sticky() { // which would be the end of the other library's contexts, too
		run("importing", importingLife(t))
	}
	return failed
}

// elsewhere are calls that other tests have fail.
var elsewhere = []string{
	"cuInit", // TestTheDriverMayNotStart
	// TestACodeThatTheDriverDoesNotKnowIsTold
	"cuGetErrorName", "cuGetErrorString",
	"cuMemHostRegister", "cuMemHostGetDevicePointer", "cuMemHostUnregister", // integratedLife, in a process of its own
	// those of interop/gl
	"cuGraphicsGLRegisterBuffer", "cuGraphicsMapResources", "cuGraphicsResourceGetMappedPointer",
	"cuGraphicsUnmapResources", "cuGraphicsUnregisterResource",
}

//go:embed internal/driver/*.go internal/driver/*.h
var driverSources embed.FS

// driverCalls are the functions of the driver that internal/driver calls in C. Those that
// gorgonia.org/cu calls for it are found by the lives.
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

// initVariable tells the test binary to be a process whose cuInit fails.
const initVariable = "DLX_CUDA_TEST_INIT"

// A process calls cuInit once.
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

func TestACodeThatTheDriverDoesNotKnowIsTold(t *testing.T) {
	_ = open(t).Close()
	if got, want := driver.Code(99_999).String(), "CUDA code 99999"; got != want {
		t.Errorf("the code is %q, want %q", got, want)
	}
}
