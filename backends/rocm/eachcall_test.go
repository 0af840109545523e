//go:build rocm && linux && cgo

package rocm

import (
	"context"
	"embed"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/cudalike/cudaliketest"
	"github.com/dlx-go/dlx/backends/rocm/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// codeVariable is set in the child processes of TestEveryCallMayFail. Its value is the code that calls fail with.
const codeVariable = "DLX_ROCM_TEST_CODE"

// Each function of HIP fails once at each place where it is called, in programs that use everything that devices can do.
// The codes do not end the device, since a device of HIP stays lost as long as the process: see TestALostDevice.
func TestEveryCallMayFail(t *testing.T) {
	if code, err := strconv.Atoi(os.Getenv(codeVariable)); err == nil {
		everyLife(t, driver.Code(code))
		return
	}
	child := func(code driver.Code, more ...string) func(*testing.T) {
		return coretest.Child(t, t.Name(), append(more, codeVariable+"="+strconv.Itoa(int(code)))...)
	}
	if !testing.Short() {
		defer child(driver.Unknown)(t)
	}
	defer child(driver.OutOfMemory, "DLX_GPUSIM_INTEGRATED=1")(t)
	failed := append(everyLife(t, driver.OutOfMemory), elsewhere...)
	for _, call := range calls(t) {
		if !slices.Contains(failed, call) {
			t.Errorf("%s is called by internal/driver, but failed in no program", call)
		}
	}
}

// everyLife lets each call of each program fail with a code, and returns the functions that failed.
func everyLife(t *testing.T, code driver.Code) (failed []string) {
	sim := kit.Simulator(t)
	lives := map[string]func(context.Context) error{
		"whole": kit.WholeLife, "native events": kit.NativeEventsLife, "external": func(ctx context.Context) error { return externalLife(ctx, t) },
	}
	if os.Getenv("DLX_GPUSIM_INTEGRATED") == "1" {
		lives = map[string]func(context.Context) error{"integrated": kit.IntegratedLife}
	}
	for name, life := range lives {
		t.Run(fmt.Sprintf("%s with %d", name, code), func(t *testing.T) {
			failed = append(failed, coretest.EachCall{Faults: sim, Code: int(code), Life: life}.Run(t)...)
		})
	}
	return failed
}

// externalLife imports memory that another API has exported, and memory that this API has, which it exports before.
func externalLife(ctx context.Context, t *testing.T) error {
	l := coretest.Life{Context: ctx}
	if d := l.Device(New().Open(ctx, core.DeviceID{Type: core.DeviceROCM})); d != nil {
		imports := func(m core.ExternalMemory) {
			defer m.Close()
			if x := l.Wrap(d.(core.MemoryImporter).ImportMemory(ctx, m)); x != nil {
				l.Copy(d, nil, x, l.Tensor(core.FromSlice(make([]byte, m.Length))))
			}
		}
		of, _ := cudaliketest.Foreign(t, d, 1<<16)
		imports(of)
		if own := l.Tensor(core.Empty(ctx, d, core.TypeUint8, []int64{5000}, core.AllocOptions{Export: core.HandleOpaqueFD})); own != nil {
			b, err := own.Buffer()
			if m, err := d.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD); l.OK(err) {
				imports(m)
			}
			l.OK(err)
		}
	}
	return l.End()
}

// elsewhere has the functions that fail in other tests or in other processes of this one, and those that do not fail.
var elsewhere = []string{
	"hipInit", "hipRuntimeGetVersion", "hipGetDeviceCount", // TestHIPMayNotStart
	"hipGetErrorName", "hipGetErrorString", // TestACodeThatHIPDoesNotKnow
	"hipGetLastError",                                                 // its result is not used
	"hipHostRegister", "hipHostGetDevicePointer", "hipHostUnregister", // the integrated program
	"hipMallocManaged", "hipMemGetInfo", "hipMemGetAccess", "hipHostGetFlags", // TestWhatNoDeviceUses
	"hipIpcOpenMemHandle", "hipIpcCloseMemHandle", "hipIpcOpenEventHandle", // TestHandlesOfAnotherProcess
	"hipGetDeviceProperties", "hipGetStreamDeviceId", "hipStreamAddCallback", // libraries before 6.0
	"hipMemGetHandleForAddressRange", // libraries since 7.0
	"hipMemRetainAllocationHandle",   // libraries since 7.15
}

//go:embed internal/driver/*.go internal/driver/*.h
var sources embed.FS

// calls returns the functions of HIP that internal/driver calls.
func calls(t *testing.T) (all []string) {
	t.Helper()
	files, err := sources.ReadDir("internal/driver")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := sources.ReadFile("internal/driver/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\bdlx_hip\.(hip\w+)\(`).FindAllSubmatch(text, -1) {
			all = append(all, string(m[1]))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
