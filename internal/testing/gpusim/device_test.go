//go:build linux && cgo

package gpusim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// attribute is an attribute of device 0.
func attribute(d *driver, which int) (value int32) {
	d.OK("cuDeviceGetAttribute", &value, which, 0)
	return value
}

// canAccess is 1 if a device has access to another one.
func canAccess(d *driver, device, peer int) (can int32) {
	d.OK("cuDeviceCanAccessPeer", &can, device, peer)
	return can
}

// "Initialization", "Device Management", "Peer Context Memory Access".
func TestDevicesTellWhatTheyAre(t *testing.T) {
	const maxThreads, warp, unified = 1, 10, 41 // CU_DEVICE_ATTRIBUTE_*
	d := gpusimtest.Start(t)
	var version, count, device, value int32
	d.OK("cuDriverGetVersion", &version)
	equal(t, "the version", version/1000, 12)
	d.OK("cuDeviceGetCount", &count)
	equal(t, "the number of devices", count, 2)
	for i := range 2 {
		name, bus := make([]byte, 64), make([]byte, 16)
		d.OK("cuDeviceGet", &device, i)
		d.OK("cuDeviceGetName", &name[0], len(name), device)
		d.OK("cuDeviceGetPCIBusId", &bus[0], len(bus), device)
		equal(t, "the name", cString(name), "dlx simulated GPU")
		equal(t, "the place", cString(bus), fmt.Sprintf("0000:F%d:00.0", i))
		if d.New("cuDeviceTotalMem_v2", device) == 0 {
			t.Errorf("device %d has no memory", i)
		}
		for attribute, want := range map[int]int32{maxThreads: 1024, warp: 32, unified: 1} {
			d.OK("cuDeviceGetAttribute", &value, attribute, device)
			equal(t, fmt.Sprint("attribute ", attribute), value, want)
		}
	}
	try(t, d, []attempt{
		{"no such device", gpusimtest.InvalidDevice, "cuDeviceGet", []any{&device, 2}},
		{"a negative device", gpusimtest.InvalidDevice, "cuDeviceGet", []any{&device, -1}},
		{"attribute 0", gpusimtest.InvalidValue, "cuDeviceGetAttribute", []any{&value, 0, 0}},
		{"no such attribute", gpusimtest.InvalidValue, "cuDeviceGetAttribute", []any{&value, 1 << 20, 0}},
		{"no such device", gpusimtest.InvalidDevice, "cuDeviceGetAttribute", []any{&value, maxThreads, 9}},
		{"no such device", gpusimtest.InvalidDevice, "cuDeviceCanAccessPeer", []any{&value, 0, 9}},
		{"too little room", gpusimtest.InvalidValue, "cuDeviceGetPCIBusId", []any{&value, 4, 0}},
		{"flags", gpusimtest.InvalidValue, "cuInit", []any{1}},
	})
}

// tryAlone makes calls of a library without devices.
func tryAlone(t *testing.T, variable string, attempts []attempt) {
	t.Helper()
	l, err := gpusimtest.Open(os.Getenv(variable))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range attempts {
		equal(t, a.call, result(int32(l.Call(a.call, a.args...))), a.want)
	}
}

// "Initialization": "If cuInit() has not been called, any function from the driver API will return
// CUDA_ERROR_NOT_INITIALIZED"; cuInit: CUDA_ERROR_NO_DEVICE.
func TestADriverIsInitialisedFirst(t *testing.T) {
	if role() == "" {
		gpusimtest.Start(t) // skips where there is no driver
		succeeds(t, "init", "DLX_GPUSIM_DEVICES=0")
		return
	}
	tryAlone(t, "DLX_CUDA_LIBRARY", []attempt{
		{"", gpusimtest.Success, "cuDriverGetVersion", []any{new(int32)}},
		{"", gpusimtest.NotInitialized, "cuDeviceGetCount", []any{new(int32)}},
		{"", gpusimtest.NotInitialized, "cuCtxSynchronize", nil},
		{"", gpusimtest.NoDevice, "cuInit", []any{0}},
		{"", gpusimtest.NotInitialized, "cuDeviceGetCount", []any{new(int32)}},
	})
}

// "Error Handling": "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE will be returned", and the text is
// NULL.
func TestErrorsHaveNamesAndTexts(t *testing.T) {
	d := gpusimtest.Start(t)
	equal(t, "the name", d.Name(gpusimtest.IllegalAddress), "CUDA_ERROR_ILLEGAL_ADDRESS (700)")
	for _, call := range []string{"cuGetErrorName", "cuGetErrorString"} {
		text := uint64(1)
		d.OK(call, int(gpusimtest.OutOfMemory), &text)
		if text <= 1 {
			t.Errorf("%s gives %d", call, text)
		}
		d.Want(gpusimtest.InvalidValue, call, 123456, &text)
		equal(t, "the text of what is no error", text, 0)
	}
}

// "Driver Entry Point Access", cuGetProcAddress: functions by their base names and versions; for what is not there it
// returns CUDA_SUCCESS, NULL and the reason.
func TestFunctionsAreFoundByTheirNames(t *testing.T) {
	const found, notFound, tooOld = 0, 1, 2 // CUdriverProcAddressQueryResult
	d := gpusimtest.Start(t)
	for _, c := range []struct {
		name    string
		version int
		want    int32
	}{
		{"cuMemAlloc", 12000, found},
		{"cuInit", 12040, found},
		{"cuMemAlloc", 11000, tooOld},
		{"cuMemAlloc_v2", 12000, notFound},
		{"cuNothing", 12000, notFound},
		{"dlx_gpusim_hold", 12000, notFound},
		{"printf", 12000, notFound},
	} {
		function, again, status := uint64(1), uint64(1), int32(-1)
		d.OK("cuGetProcAddress_v2", cText(c.name), &function, c.version, 0, &status)
		d.OK("cuGetProcAddress_v2", cText(c.name), &again, c.version, 0, nil)
		if status != c.want || (function != 0) != (c.want == found) || again != function {
			t.Errorf("%s %d: status %d, function %#x, and without a status %#x", c.name, c.version, status, function, again)
		}
	}
	for _, args := range [][]any{
		{nil, new(uint64), 12000, 0, nil}, {cText("cuInit"), nil, 12000, 0, nil}, {cText("cuInit"), new(uint64), 12000, 99, nil},
	} {
		d.Want(gpusimtest.InvalidValue, "cuGetProcAddress_v2", args...)
	}
}

// NVIDIA's runtime, which PyTorch and CuPy bring, opens the driver that the process has already, asks it for functions by
// cuGetProcAddress and finds it insufficient, since none declares cuGetExportTable. So these libraries refuse the device.
func TestNVIDIAsRuntimeFindsTheDriverInsufficient(t *testing.T) {
	const insufficient = 35 // cudaErrorInsufficientDriver
	d := gpusimtest.Start(t)
	tools := os.Getenv("DLX_CUDA_TOOLS")
	if tools == "" {
		t.Skip("DLX_CUDA_TOOLS does not say where libcudart is (make setup)")
	}
	l, err := gpusimtest.Open(filepath.Join(tools, "cuda_runtime/lib/libcudart.so.12"))
	if err != nil {
		t.Fatal(err)
	}
	count := func() uint64 { return d.Call("dlx_gpusim_count", cText("cuGetProcAddress")) }
	before := count()
	if got := int32(l.Call("cudaGetDeviceCount", new(int32))); got != insufficient || count() == before {
		t.Errorf("it returns %d, want %d, after %d questions", got, insufficient, count()-before)
	}
}

type uuid [16]byte

// uuidWanted asks this program, run again, for device 0's UUID under other environments.
const uuidWanted = "GPUSIM_TEST_UUID_WANTED"

// "Device Management", cuDeviceGetUuid. The UUID is looked up once in a process, so each case has one.
func TestEveryDeviceHasAUUIDOfItsOwn(t *testing.T) {
	d := gpusimtest.Start(t)
	if role() == "" {
		const own, nowhere = uuidWanted + "=dlx simulated 0", "/nonexistent"
		noVulkan := []string{"VK_ICD_FILENAMES=" + nowhere, "VK_DRIVER_FILES=" + nowhere, own}
		succeeds(t, "the environment", "DLX_GPUSIM_UUID=30313233-3435-3637-3839-616263646566", uuidWanted+"=0123456789abcdef")
		succeeds(t, "no driver of Vulkan", noVulkan...)
		succeeds(t, "an instance of a card", append(noVulkan, "DLX_GPUSIM_MIG=1")...)
		succeeds(t, "an environment that is no UUID", append(noVulkan, "DLX_GPUSIM_UUID=1234")...)
	}
	var first, again, second uuid
	d.OK("cuDeviceGetUuid", &first, 0)
	d.OK("cuDeviceGetUuid_v2", &again, 0)
	d.OK("cuDeviceGetUuid_v2", &second, 1)
	instance := os.Getenv("DLX_GPUSIM_MIG") == "1" // of which only the second version tells
	if (first == again) == instance || again == second || first == (uuid{}) {
		t.Errorf("device 0 has %x and %x, device 1 %x", first, again, second)
	}
	d.Want(gpusimtest.InvalidDevice, "cuDeviceGetUuid_v2", &first, 99)
	d.Want(gpusimtest.InvalidValue, "cuDeviceGetUuid_v2", nil, 0)
	if want := os.Getenv(uuidWanted); want != "" {
		equal(t, "the UUID", strings.TrimRight(string(first[:]), "\x00"), want)
	}
}
