//go:build linux && cgo

package gpusim_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// hipVersions runs a test in a process for each major version of HIP's library: it is false in the process that does
// not run the test itself. version is that of this process.
func hipVersions(t *testing.T, versions ...string) (version string, here bool) {
	t.Helper()
	if v := os.Getenv("DLX_GPUSIM_HIP_VERSION"); os.Getenv("DLX_GPUSIM_CHILD") != "" {
		return v, true
	}
	gpusimtest.StartHIP(t) // skips where there is no library
	for _, v := range versions {
		if out, err := child(t, "version", "DLX_GPUSIM_HIP_VERSION="+v).CombinedOutput(); err != nil {
			t.Errorf("HIP %s: %v\n%s", v, err, out)
		}
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
	version, here := hipVersions(t, "5", "6", "7")
	if !here {
		return
	}
	h := gpusimtest.StartHIP(t)
	var n, runtime, value int32
	h.OK("hipGetDeviceCount", &n)
	h.OK("hipRuntimeGetVersion", &runtime)
	if n != 2 || runtime/10_000_000 != int32(version[0]-'0') {
		t.Fatalf("%d devices of version %d", n, runtime)
	}
	for i := range n {
		name, bus, uuid, properties := make([]byte, 64), make([]byte, 13), make([]byte, 16), make([]byte, 1472)
		h.OK("hipDeviceGetName", &name[0], len(name), i)
		h.OK("hipDeviceGetPCIBusId", &bus[0], len(bus), i)
		h.OK("hipDeviceGetUuid", &uuid[0], i)
		if want := []string{"0000:c3:00.0", "0000:c4:00.0"}[i]; cString(bus) != want {
			t.Errorf("device %d is at %s", i, bus)
		}
		h.OK("hipGetDeviceProperties", &properties[0], i)
		const arch = "gfx90a:sramecc+:xnack-"
		if got := cString(properties[396:652]); got != arch || cString(properties[:256]) != "dlx simulated GPU" {
			t.Errorf("the properties of 5.x have the architecture %q", got)
		}
		if version == "5" {
			if h.Has("hipGetDevicePropertiesR0600") || h.Has("hipStreamGetDevice") || h.Has("hipLaunchHostFunc") {
				t.Error("5.x has functions of 6.0")
			}
			continue
		}
		h.OK("hipGetDevicePropertiesR0600", &properties[0], i)
		if cString(properties[1160:1416]) != arch || !bytes.Equal(properties[256:272], uuid) {
			t.Errorf("the properties of 6.0 have the architecture %q and the UUID %x", properties[1160:1200], properties[256:272])
		}
	}
	const warp, memoryManagement = 87, 89
	h.OK("hipDeviceGetAttribute", &value, warp, 0)
	if value != 64 {
		t.Errorf("a wave has %d threads", value)
	}
	if version == "5" {
		h.Want(gpusimtest.InvalidValue, "hipDeviceGetAttribute", &value, memoryManagement, 0)
	} else {
		h.OK("hipDeviceGetAttribute", &value, memoryManagement, 0)
	}
	for _, c := range []struct {
		call string
		args []any
		want gpusimtest.Result
	}{
		{"hipSetDevice", []any{2}, gpusimtest.InvalidDevice},
		{"hipSetDevice", []any{-1}, gpusimtest.InvalidDevice},
		{"hipDeviceGetAttribute", []any{&value, warp, 9}, gpusimtest.InvalidDevice},
		{"hipDeviceGetAttribute", []any{&value, 1 << 20, 0}, gpusimtest.InvalidValue},
		{"hipDeviceGetAttribute", []any{nil, warp, 0}, gpusimtest.InvalidValue},
		{"hipDeviceGetPCIBusId", []any{buffer(5), 5, 0}, gpusimtest.InvalidValue},
		{"hipDeviceCanAccessPeer", []any{&value, 0, 9}, gpusimtest.InvalidDevice},
		{"hipDeviceEnablePeerAccess", []any{0, 0}, gpusimtest.InvalidDevice},
		{"hipDeviceEnablePeerAccess", []any{1, 1}, gpusimtest.InvalidValue},
		{"hipGetDeviceCount", []any{nil}, gpusimtest.InvalidValue},
		{"hipInit", []any{1}, gpusimtest.InvalidValue},
	} {
		h.Want(c.want, c.call, c.args...)
	}
}

func buffer(n int) *byte { return &make([]byte, n)[0] }

// cText is a text that ends with 0.
func cText(s string) *byte { return &append([]byte(s), 0)[0] }

// Tried with Debian's libamdhip64-5 5.2.3 on a machine without a card: hipGetDeviceCount returns hipErrorNoDevice (100),
// hipRuntimeGetVersion succeeds, all else fails with hipErrorInvalidDevice (101). Since 6.0 calls return hipErrorNoDevice
// (HIP_INIT_API in clr).
func TestHIPWithoutDevices(t *testing.T) {
	if os.Getenv("DLX_GPUSIM_CHILD") == "" {
		gpusimtest.StartHIP(t)
		for _, v := range []string{"5", "6"} {
			if out, err := child(t, "none", "DLX_GPUSIM_DEVICES=0", "DLX_GPUSIM_HIP_VERSION="+v).CombinedOutput(); err != nil {
				t.Errorf("HIP %s: %v\n%s", v, err, out)
			}
		}
		return
	}
	l, err := gpusimtest.Open(os.Getenv("DLX_HIP_LIBRARY"))
	if err != nil {
		t.Fatal(err)
	}
	none := gpusimtest.NoDevice
	if os.Getenv("DLX_GPUSIM_HIP_VERSION") == "5" {
		none = gpusimtest.InvalidDevice
	}
	n := int32(7)
	var p uint64
	for _, c := range []struct {
		call string
		args []any
		want gpusimtest.Result
	}{
		{"hipInit", []any{0}, none},
		{"hipGetDeviceCount", []any{&n}, gpusimtest.NoDevice},
		{"hipRuntimeGetVersion", []any{&p}, gpusimtest.Success},
		{"hipMalloc", []any{&p, 10}, none},
		{"hipSetDevice", []any{0}, none},
		{"hipFree", []any{0}, none},
	} {
		if got := gpusimtest.Result(int32(l.Call(c.call, c.args...))); got != c.want {
			t.Errorf("%s returns %d, want %d", c.call, got, c.want)
		}
	}
	if n != 0 {
		t.Errorf("there are %d devices", n)
	}
}

// hipSetDevice: "The default device of a thread is device 0", and each thread has one.
func TestHIPHasADevicePerThread(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	var here, there int32
	h.OK("hipSetDevice", 1)
	h.Run(t, "another thread", func(_ *testing.T, h *gpusimtest.HIP) { h.OK("hipGetDevice", &there) })
	h.OK("hipGetDevice", &here)
	if here != 1 || there != 0 {
		t.Errorf("the devices are %d and %d", here, there)
	}
	var attributes hipPointer
	at := h.Malloc(1)
	h.OK("hipSetDevice", 0)
	h.OK("hipPointerGetAttributes", &attributes, at)
	if attributes.device != 1 {
		t.Errorf("the memory is of device %d", attributes.device)
	}
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
	last := func() gpusimtest.Result { return h.Result("hipGetLastError") }
	var n int32
	last()
	h.Want(gpusimtest.InvalidDevice, "hipSetDevice", 9)
	if got := last(); got != gpusimtest.InvalidDevice {
		t.Errorf("the last error is %s", h.Name(got))
	}
	h.Want(gpusimtest.Success, "hipGetLastError")
	h.Want(gpusimtest.InvalidDevice, "hipSetDevice", 9)
	h.Run(t, "another thread", func(_ *testing.T, h *gpusimtest.HIP) { h.Want(gpusimtest.Success, "hipGetLastError") })
	h.OK("hipGetDeviceCount", &n)
	want := gpusimtest.Success
	if version == "7" {
		want = gpusimtest.InvalidDevice
	}
	if got := last(); got != want {
		t.Errorf("after a call that succeeded the last error is %s", h.Name(got))
	}
}

func TestHIPNamesErrors(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	for code, want := range map[int]string{0: "hipSuccess", 2: "hipErrorOutOfMemory", 709: "hipErrorContextIsDestroyed", 12345: "hipErrorUnknown"} {
		if got := h.Text("hipGetErrorName", code); got != want {
			t.Errorf("%d is %s", code, got)
		}
	}
	if got := h.Text("hipGetErrorString", 100); !strings.Contains(got, "no ROCm-capable device") {
		t.Errorf("100 is %q", got)
	}
}

// On AMD's cards the UUID is 16 hexadecimal digits, those of the serial number.
func TestHIPsUUIDCanBeASerialNumber(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	if runAlone(t, "DLX_GPUSIM_HIP_UUID=serial") {
		return
	}
	uuid, other := make([]byte, 16), make([]byte, 16)
	h.OK("hipDeviceGetUuid", &uuid[0], 0)
	h.OK("hipDeviceGetUuid", &other[0], 1)
	if strings.Trim(string(uuid), "0123456789abcdef") != "" || bytes.Equal(uuid, other) {
		t.Errorf("the UUIDs are %q and %q", uuid, other)
	}
}
