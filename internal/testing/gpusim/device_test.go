//go:build linux && cgo

package gpusim_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// "Initialization", "Device Management", "Peer Context Memory Access".
func TestDevicesTellWhatTheyAre(t *testing.T) {
	const maxThreads, warp, unified = 1, 10, 41 // CU_DEVICE_ATTRIBUTE_*
	d := gpusimtest.Start(t)
	var version, count, device, value int32
	var bytesOf uint64
	d.OK("cuDriverGetVersion", &version)
	if version < 12000 || version >= 13000 {
		t.Errorf("the driver is of version %d", version)
	}
	d.OK("cuDeviceGetCount", &count)
	if count != 2 {
		t.Fatalf("there are %d devices", count)
	}
	for i := range count {
		name, bus := make([]byte, 64), make([]byte, 16)
		d.OK("cuDeviceGet", &device, i)
		d.OK("cuDeviceGetName", &name[0], len(name), device)
		d.OK("cuDeviceTotalMem_v2", &bytesOf, device)
		d.OK("cuDeviceGetPCIBusId", &bus[0], len(bus), device)
		wantBus := fmt.Appendf(nil, "0000:F%d:00.0\x00", i)
		if !bytes.HasPrefix(name, []byte("dlx simulated GPU\x00")) || !bytes.HasPrefix(bus, wantBus) || bytesOf == 0 {
			t.Errorf("device %d is %q at %q with %d bytes", i, name, bus, bytesOf)
		}
		for attribute, want := range map[int]int32{maxThreads: 1024, warp: 32, unified: 1} {
			d.OK("cuDeviceGetAttribute", &value, attribute, device)
			if value != want {
				t.Errorf("attribute %d of device %d is %d, want %d", attribute, i, value, want)
			}
		}
	}
	d.OK("cuDeviceCanAccessPeer", &value, 0, 1)
	if value != 1 {
		t.Error("the devices have no access to each other")
	}
	d.OK("cuDeviceCanAccessPeer", &value, 0, 0)
	if value != 0 {
		t.Error("a device is its own peer")
	}
	for _, c := range []struct {
		call string
		args []any
		want gpusimtest.Result
	}{
		{"cuDeviceGet", []any{&device, 2}, gpusimtest.InvalidDevice},
		{"cuDeviceGet", []any{&device, -1}, gpusimtest.InvalidDevice},
		{"cuDeviceGetAttribute", []any{&value, 0, 0}, gpusimtest.InvalidValue},
		{"cuDeviceGetAttribute", []any{&value, 1 << 20, 0}, gpusimtest.InvalidValue},
		{"cuDeviceGetAttribute", []any{&value, maxThreads, 9}, gpusimtest.InvalidDevice},
		{"cuDeviceCanAccessPeer", []any{&value, 0, 9}, gpusimtest.InvalidDevice},
		{"cuDeviceGetPCIBusId", []any{&value, 4, 0}, gpusimtest.InvalidValue},
		{"cuInit", []any{1}, gpusimtest.InvalidValue},
	} {
		d.Want(c.want, c.call, c.args...)
	}
}

// "Initialization": "If cuInit() has not been called, any function from the driver API will return
// CUDA_ERROR_NOT_INITIALIZED"; cuInit: CUDA_ERROR_NO_DEVICE.
func TestADriverIsInitialisedFirst(t *testing.T) {
	if os.Getenv("DLX_GPUSIM_CHILD") == "" {
		gpusimtest.Start(t) // skips where there is no driver
		if out, err := child(t, "init", "DLX_GPUSIM_DEVICES=0").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	l, err := gpusimtest.Open(os.Getenv("DLX_CUDA_LIBRARY"))
	if err != nil {
		t.Fatal(err)
	}
	var n int32
	for _, c := range []struct {
		call string
		args []any
		want gpusimtest.Result
	}{
		{"cuDriverGetVersion", []any{&n}, gpusimtest.Success},
		{"cuDeviceGetCount", []any{&n}, gpusimtest.NotInitialized},
		{"cuCtxSynchronize", nil, gpusimtest.NotInitialized},
		{"cuInit", []any{0}, gpusimtest.NoDevice},
		{"cuDeviceGetCount", []any{&n}, gpusimtest.NotInitialized},
	} {
		if got := gpusimtest.Result(int32(l.Call(c.call, c.args...))); got != c.want {
			t.Errorf("%s returns %d, want %d", c.call, got, c.want)
		}
	}
}

// cuCtxEnablePeerAccess: CUDA_ERROR_PEER_ACCESS_UNSUPPORTED "if cuDeviceCanAccessPeer() indicates that the CUdevice of
// the current context cannot directly access memory"; cuMemcpyPeer works nevertheless.
func TestDevicesMayHaveNoAccessToEachOther(t *testing.T) {
	const unsupported gpusimtest.Result = 217
	d := gpusimtest.Start(t)
	if runAlone(t, "DLX_GPUSIM_PEERS=0") {
		return
	}
	var can int32
	var there, before, far uint64
	d.OK("cuDeviceCanAccessPeer", &can, 0, 1)
	if can != 0 {
		t.Error("the devices have access")
	}
	near := memory(t, d, 1)
	here := d.Context()
	d.OK("cuDevicePrimaryCtxRetain", &there, 1)
	d.Want(unsupported, "cuCtxEnablePeerAccess", there, 0)
	d.OK("cuCtxPushCurrent_v2", there)
	d.OK("cuMemAlloc_v2", &far, 1)
	d.OK("cuMemsetD8Async", far, 9, 1, legacy)
	d.OK("cuCtxSynchronize")
	d.OK("cuCtxPopCurrent_v2", &before)
	d.OK("cuMemcpyPeerAsync", near, here, far, there, 1, legacy)
	d.OK("cuCtxSynchronize")
	d.Holds(near, []byte{9})

	ptr := mapping(t, d, create(t, d, granularity), granularity)
	d.Want(gpusimtest.InvalidDevice, "cuMemSetAccess", ptr, granularity, &access{location{1, 1}, readWrite}, 1)
	d.OK("cuMemFree_v2", far)
	d.OK("cuDevicePrimaryCtxRelease_v2", 1)
}

// "Error Handling": "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE will be returned", and the text is
// NULL.
func TestErrorsHaveNamesAndTexts(t *testing.T) {
	d := gpusimtest.Start(t)
	if got := d.Name(gpusimtest.IllegalAddress); got != "CUDA_ERROR_ILLEGAL_ADDRESS (700)" {
		t.Error(got)
	}
	for _, call := range []string{"cuGetErrorName", "cuGetErrorString"} {
		text := uint64(1)
		d.OK(call, int(gpusimtest.OutOfMemory), &text)
		if text <= 1 {
			t.Errorf("%s gives %d", call, text)
		}
		d.Want(gpusimtest.InvalidValue, call, 123456, &text)
		if text != 0 {
			t.Errorf("%s gives %#x for what is no error", call, text)
		}
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
		d.Run(t, fmt.Sprint(c.name, " ", c.version), func(t *testing.T, d *gpusimtest.Driver) {
			name := append([]byte(c.name), 0)
			function, again, status := uint64(1), uint64(1), int32(-1)
			d.OK("cuGetProcAddress_v2", &name[0], &function, c.version, 0, &status)
			d.OK("cuGetProcAddress_v2", &name[0], &again, c.version, 0, nil)
			if status != c.want || (function != 0) != (c.want == found) || again != function {
				t.Errorf("status %d, function %#x, and without a status %#x", status, function, again)
			}
		})
	}
	name, function := append([]byte("cuInit"), 0), uint64(0)
	d.Want(gpusimtest.InvalidValue, "cuGetProcAddress_v2", nil, &function, 12000, 0, nil)
	d.Want(gpusimtest.InvalidValue, "cuGetProcAddress_v2", &name[0], nil, 12000, 0, nil)
	d.Want(gpusimtest.InvalidValue, "cuGetProcAddress_v2", &name[0], &function, 12000, 99, nil)
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
	var n int32
	if got := int32(l.Call("cudaGetDeviceCount", &n)); got != insufficient || count() == before {
		t.Errorf("it returns %d, want %d, after %d questions", got, insufficient, count()-before)
	}
}
