//go:build linux && cgo

package gpusim_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

const (
	hipVersion = "DLX_GPUSIM_HIP_VERSION"
	device9    = 9 // which is not there
)

// hipVersions runs a test in a process for each major version of HIP's library: it is false in the process that does
// not run the test itself. version is that of this process.
func hipVersions(t *testing.T, versions ...string) (version string, here bool) {
	t.Helper()
	if role() != "" {
		return os.Getenv(hipVersion), true
	}
	gpusimtest.StartHIP(t) // skips where there is no library
	for _, v := range versions {
		succeeds(t, "version", hipVersion+"="+v)
	}
	return "", false
}

func cString(data []byte) string {
	text, _, _ := bytes.Cut(data, []byte{0})
	return string(text)
}

// hip_runtime_api.h, "Device Management". hipDeviceProp_t has 792 bytes in 5.x, with gcnArchName at 396. Since 6.0 it
// is hipDeviceProp_tR0600 of 1472 bytes, with it at 1160, and hipGetDeviceProperties stays as it was.
func TestHIPDevices(t *testing.T) {
	const arch, warp, memoryManagement = "gfx90a:sramecc+:xnack-", 87, 89
	version, here := hipVersions(t, "5", "6", "7")
	if !here {
		return
	}
	h := gpusimtest.StartHIP(t)
	var n, runtime, value int32
	h.OK("hipGetDeviceCount", &n)
	h.OK("hipRuntimeGetVersion", &runtime)
	equal(t, "the number of devices and the version", [2]int32{n, runtime / 10_000_000}, [2]int32{2, int32(version[0] - '0')})
	for i, place := range []string{"0000:c3:00.0", "0000:c4:00.0"} {
		name, bus, uuid, properties := make([]byte, 64), make([]byte, 13), make([]byte, 16), make([]byte, 1472)
		h.OK("hipDeviceGetName", &name[0], len(name), i)
		h.OK("hipDeviceGetPCIBusId", &bus[0], len(bus), i)
		h.OK("hipDeviceGetUuid", &uuid[0], i)
		equal(t, "the place", cString(bus), place)
		h.OK("hipGetDeviceProperties", &properties[0], i)
		equal(t, "the name of 5.x", cString(properties[:256]), "dlx simulated GPU")
		equal(t, "the architecture of 5.x", cString(properties[396:652]), arch)
		if version != "5" {
			h.OK("hipGetDevicePropertiesR0600", &properties[0], i)
			equal(t, "the architecture of 6.0", cString(properties[1160:1416]), arch)
			equal(t, "the UUID of 6.0", string(properties[256:272]), string(uuid))
		}
	}
	for _, name := range []string{"hipGetDevicePropertiesR0600", "hipStreamGetDevice", "hipLaunchHostFunc"} {
		equal(t, name, h.Has(name), version != "5")
	}
	h.OK("hipDeviceGetAttribute", &value, warp, 0)
	equal(t, "the threads of a wave", value, 64)
	since6 := gpusimtest.Success
	if version == "5" {
		since6 = gpusimtest.InvalidValue
	}
	try(t, h.Driver, []attempt{
		{"an attribute of 6.0", since6, "hipDeviceGetAttribute", []any{&value, memoryManagement, 0}},
		{"no such device", gpusimtest.InvalidDevice, "hipSetDevice", []any{2}},
		{"a negative device", gpusimtest.InvalidDevice, "hipSetDevice", []any{-1}},
		{"no such device", gpusimtest.InvalidDevice, "hipDeviceGetAttribute", []any{&value, warp, device9}},
		{"no such attribute", gpusimtest.InvalidValue, "hipDeviceGetAttribute", []any{&value, 1 << 20, 0}},
		{"no result", gpusimtest.InvalidValue, "hipDeviceGetAttribute", []any{nil, warp, 0}},
		{"too little room", gpusimtest.InvalidValue, "hipDeviceGetPCIBusId", []any{&make([]byte, 5)[0], 5, 0}},
		{"no such device", gpusimtest.InvalidDevice, "hipDeviceCanAccessPeer", []any{&value, 0, device9}},
		{"the device itself", gpusimtest.InvalidDevice, "hipDeviceEnablePeerAccess", []any{0, 0}},
		{"flags", gpusimtest.InvalidValue, "hipDeviceEnablePeerAccess", []any{1, 1}},
		{"no result", gpusimtest.InvalidValue, "hipGetDeviceCount", []any{nil}},
		{"flags", gpusimtest.InvalidValue, "hipInit", []any{1}},
	})
}

// Tried with Debian's libamdhip64-5 5.2.3 on a machine without a card: hipGetDeviceCount returns hipErrorNoDevice (100),
// hipRuntimeGetVersion succeeds, all else fails with hipErrorInvalidDevice (101). Since 6.0 calls return hipErrorNoDevice
// (HIP_INIT_API in clr).
func TestHIPWithoutDevices(t *testing.T) {
	if role() == "" {
		gpusimtest.StartHIP(t)
		succeeds(t, "none", "DLX_GPUSIM_DEVICES=0", hipVersion+"=5")
		succeeds(t, "none", "DLX_GPUSIM_DEVICES=0", hipVersion+"=6")
		return
	}
	none, n := gpusimtest.NoDevice, int32(7)
	if os.Getenv(hipVersion) == "5" {
		none = gpusimtest.InvalidDevice
	}
	tryAlone(t, "DLX_HIP_LIBRARY", []attempt{
		{"", none, "hipInit", []any{0}},
		{"", gpusimtest.NoDevice, "hipGetDeviceCount", []any{&n}},
		{"", gpusimtest.Success, "hipRuntimeGetVersion", []any{new(int32)}},
		{"", none, "hipMalloc", []any{new(uint64), 10}},
		{"", none, "hipSetDevice", []any{0}},
		{"", none, "hipFree", []any{0}},
	})
	equal(t, "the number of devices", n, 0)
}

// hipSetDevice: "The default device of a thread is device 0", and each thread has one.
func TestHIPHasADevicePerThread(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	var here, there int32
	h.OK("hipSetDevice", 1)
	h.Run(t, "another thread", func(_ *testing.T, h *gpusimtest.HIP) { h.OK("hipGetDevice", &there) })
	h.OK("hipGetDevice", &here)
	equal(t, "the devices of two threads", [2]int32{here, there}, [2]int32{1, 0})
	at := h.Malloc(1)
	h.OK("hipSetDevice", 0)
	equal(t, "the device of the memory", describe(h, at).device, 1)
}

// hipGetLastError "returns the last error that has been returned by any of the runtime API calls in the same host
// thread, and then resets the saved error". Before ROCm 7 a call that succeeds sets it, too (HIP_RETURN in clr); "hipGetLastError
// now returns the error code which is the last actual error caught" (changes of ROCm 7.0).
func TestHIPRemembersTheLastError(t *testing.T) {
	version, here := hipVersions(t, "6", "7")
	if !here {
		return
	}
	h := gpusimtest.StartHIP(t)
	h.Result("hipGetLastError")
	h.Want(gpusimtest.InvalidDevice, "hipSetDevice", device9)
	h.Want(gpusimtest.InvalidDevice, "hipGetLastError")
	h.Want(gpusimtest.Success, "hipGetLastError")
	h.Want(gpusimtest.InvalidDevice, "hipSetDevice", device9)
	h.Run(t, "another thread", func(_ *testing.T, h *gpusimtest.HIP) { h.Want(gpusimtest.Success, "hipGetLastError") })
	h.OK("hipGetDeviceCount", new(int32))
	want := gpusimtest.Success
	if version == "7" {
		want = gpusimtest.InvalidDevice
	}
	h.Want(want, "hipGetLastError")
}

func TestHIPNamesErrors(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	for code, want := range map[int]string{0: "hipSuccess", 2: "hipErrorOutOfMemory", 709: "hipErrorContextIsDestroyed", 12345: "hipErrorUnknown"} {
		equal(t, "the name", h.Text("hipGetErrorName", code), want)
	}
	equal(t, "the text", h.Text("hipGetErrorString", 100), "no ROCm-capable device is detected")
}

// On AMD's cards the UUID is 16 hexadecimal digits, those of the serial number.
func TestHIPsUUIDCanBeASerialNumber(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	if runAlone(t, "DLX_GPUSIM_HIP_UUID=serial") {
		return
	}
	first, second := make([]byte, 16), make([]byte, 16)
	h.OK("hipDeviceGetUuid", &first[0], 0)
	h.OK("hipDeviceGetUuid", &second[0], 1)
	if strings.Trim(string(first), "0123456789abcdef") != "" || bytes.Equal(first, second) {
		t.Errorf("the UUIDs are %q and %q", first, second)
	}
}

// A call of HIP's counts by its name, and so does a fault; what the engine calls for it counts as nothing.
func TestHIPCallsCountAndFailByTheirNames(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	count := func(name string) uint64 { return h.Call("dlx_gpusim_count", cText(name)) }
	before := count("hipMalloc")
	h.Fail("cuMemAlloc", gpusimtest.OutOfMemory)
	p := h.New("hipMalloc", 1)
	equal(t, "the calls", [2]uint64{count("hipMalloc") - before, count("cuMemAlloc")}, [2]uint64{1, 0})
	h.Fail("hipFree", gpusimtest.OperatingSystem)
	h.Want(gpusimtest.OperatingSystem, "hipFree", p)
	h.WantMisuse(gpusimtest.InvalidValue, "hipFree", p) // it was freed nevertheless
	h.Fail("hipStreamCreateWithFlags", gpusimtest.OutOfMemory)
	h.Want(gpusimtest.OutOfMemory, "hipStreamCreateWithFlags", &p, 1)
	h.Want(gpusimtest.OutOfMemory, "hipGetLastError")
	h.Fail("hiprtcCreateProgram", 1)
	h.Want(1, "hiprtcCreateProgram", &p, cText(""), nil, 0, nil, nil)
	h.Call("dlx_gpusim_fail", cText("cuMemAlloc"), 0, 0)
}

// A device that is lost fails every later call with the same error, until it is reset; other devices go on.
func TestHIPDevicesAreLost(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	h.OK("hipDeviceSynchronize")
	h.Call("dlx_gpusim_lose", 0)
	h.Want(gpusimtest.IllegalAddress, "hipMalloc", new(uint64), 1)
	h.Want(gpusimtest.IllegalAddress, "hipDeviceSynchronize")
	h.OK("hipSetDevice", 1)
	h.OK("hipFree", h.New("hipMalloc", 1))
	h.OK("hipSetDevice", 0)
	h.OK("hipDeviceReset")
	h.OK("hipFree", h.New("hipMalloc", 1))
}

// Both libraries can be open in a process. They share no state, and neither opens the other's handles, nor its
// descriptors, as memory of the API or as memory of another one.
func TestHIPAndCUDALiveTogether(t *testing.T) {
	d, h := gpusimtest.Start(t), gpusimtest.StartHIP(t)
	cuda, hip, size := d.New("cuMemAlloc_v2", page), h.New("hipMalloc", 2*page), uint64(0)
	d.Write(cuda, gpusimtest.Pattern(1, page))
	h.Write(hip, gpusimtest.Pattern(2, page))
	if live := d.Live(); !strings.Contains(live, "allocations 1\n") {
		t.Errorf("CUDA has %q", live)
	}
	equal(t, "what HIP has", h.Live(), "allocations 1\n")
	var hipMemory gpusimtest.Handle
	h.OK("hipIpcGetMemHandle", &hipMemory, hip)
	handle, hipHandle, hipFD := create(t, d, granularity), h.New("hipMemCreate", granularity, pinned(), 0), int32(0)
	fd := int32(export(d, handle))
	h.OK("hipMemExportToShareableHandle", &hipFD, hipHandle, posixFD, 0)
	defer func() { _, _ = unix.Close(int(fd)), unix.Close(int(hipFD)) }()
	const invalid = gpusimtest.InvalidValue
	try(t, d, []attempt{
		{"an address", gpusimtest.NotFound, "cuMemGetAddressRange_v2", []any{&size, &size, hip}},
		{"a handle", invalid, "cuIpcOpenMemHandle_v2", []any{&size, hipMemory, lazyPeerAccess}},
		{"memory", invalid, "cuMemImportFromShareableHandle", []any{&size, hipFD, posixFD}},
		{"memory", gpusimtest.OperatingSystem, "cuImportExternalMemory", []any{&size, &externalHandle{kind: opaqueFD, fd: hipFD, size: granularity}}},
	})
	try(t, h.Driver, []attempt{
		{"an address", gpusimtest.NotFound, "hipMemGetAddressRange", []any{&size, &size, cuda}},
		{"a handle", invalid, "hipIpcOpenMemHandle", []any{&size, memoryHandle(d, cuda), 1}},
		{"memory", invalid, "hipMemImportFromShareableHandle", []any{&size, &fd, posixFD}},
		{"memory", gpusimtest.OutOfMemory, "hipImportExternalMemory", []any{&size, &externalHandle{kind: opaqueFD, fd: fd, size: granularity}}},
	})
	h.OK("hipMemRelease", hipHandle)
	h.Fail("hipGetDevice", gpusimtest.OutOfMemory)
	d.OK("cuDeviceGet", new(int32), 0)
	h.Want(gpusimtest.OutOfMemory, "hipGetDevice", new(int32))
	equal(t, "the calls of HIP that CUDA's library counted", d.Call("dlx_gpusim_count", cText("hipGetDevice")), 0)
	d.Holds(cuda, gpusimtest.Pattern(1, page))
	h.Holds(hip, gpusimtest.Pattern(2, page))
	d.OK("cuMemFree_v2", cuda)
	h.OK("hipFree", hip)
}
