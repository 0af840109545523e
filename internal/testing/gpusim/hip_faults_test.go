//go:build linux && cgo

package gpusim_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// A call of HIP's counts by its name, and so does a fault; what the engine calls for it counts as nothing.
func TestHIPCallsCountAndFailByTheirNames(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	count := func(name string) uint64 { return h.Call("dlx_gpusim_count", cText(name)) }
	var p, stream uint64
	before := count("hipMalloc")
	failNext(h.Driver, "cuMemAlloc", gpusimtest.OutOfMemory)
	h.OK("hipMalloc", &p, 1)
	if got := count("hipMalloc") - before; got != 1 || count("cuMemAlloc") != 0 {
		t.Errorf("hipMalloc counts %d, cuMemAlloc %d", got, count("cuMemAlloc"))
	}
	failNext(h.Driver, "hipFree", gpusimtest.OperatingSystem)
	h.Want(gpusimtest.OperatingSystem, "hipFree", p)
	h.WantMisuse(gpusimtest.InvalidValue, "hipFree", p) // it was freed nevertheless
	failNext(h.Driver, "hipStreamCreateWithFlags", gpusimtest.OutOfMemory)
	h.Want(gpusimtest.OutOfMemory, "hipStreamCreateWithFlags", &stream, 1)
	h.Want(gpusimtest.OutOfMemory, "hipGetLastError")
	failNext(h.Driver, "hiprtcCreateProgram", 1)
	h.Want(1, "hiprtcCreateProgram", &p, cText(""), nil, 0, nil, nil)
	h.Call("dlx_gpusim_fail", cText("cuMemAlloc"), 0, 0)
}

// A device that is lost fails every later call with the same error, until it is reset; other devices go on.
func TestHIPDevicesAreLost(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	var p uint64
	h.OK("hipDeviceSynchronize")
	h.Call("dlx_gpusim_lose", 0)
	h.Want(gpusimtest.IllegalAddress, "hipMalloc", &p, 1)
	h.Want(gpusimtest.IllegalAddress, "hipDeviceSynchronize")
	h.OK("hipSetDevice", 1)
	h.OK("hipMalloc", &p, 1)
	h.OK("hipFree", p)
	h.OK("hipSetDevice", 0)
	h.OK("hipDeviceReset")
	h.OK("hipMalloc", &p, 1)
	h.OK("hipFree", p)
}

// Both libraries can be open in a process. They share no state, and neither opens the other's handles.
func TestHIPAndCUDALiveTogether(t *testing.T) {
	d, h := gpusimtest.Start(t), gpusimtest.StartHIP(t)
	var cuda, hip, size uint64
	var device int32
	d.OK("cuMemAlloc_v2", &cuda, page)
	h.OK("hipMalloc", &hip, 2*page)
	d.Write(cuda, gpusimtest.Pattern(1, page))
	h.Write(hip, gpusimtest.Pattern(2, page))
	if live := d.Live(); !strings.Contains(live, "allocations 1\n") {
		t.Errorf("CUDA has %q", live)
	}
	if live := h.Live(); live != "allocations 1\n" {
		t.Errorf("HIP has %q", live)
	}
	d.Want(gpusimtest.NotFound, "cuMemGetAddressRange_v2", &size, &size, hip)
	h.Want(gpusimtest.NotFound, "hipMemGetAddressRange", &size, &size, cuda)
	var memory gpusimtest.Handle
	d.OK("cuIpcGetMemHandle", &memory, cuda)
	h.Want(gpusimtest.InvalidValue, "hipIpcOpenMemHandle", &size, memory, 1)
	h.OK("hipIpcGetMemHandle", &memory, hip)
	d.Want(gpusimtest.InvalidValue, "cuIpcOpenMemHandle_v2", &size, memory, lazyPeerAccess)
	// Nor its descriptors, as memory of the API or as memory of another one.
	handle, fd := create(t, d, granularity), int32(-1)
	d.OK("cuMemExportToShareableHandle", &fd, handle, posixFD, 0)
	h.Want(gpusimtest.InvalidValue, "hipMemImportFromShareableHandle", &size, &fd, posixFD)
	h.Want(gpusimtest.OutOfMemory, "hipImportExternalMemory", &size, &externalHandle{kind: opaqueFD, fd: fd, size: granularity})
	_ = unix.Close(int(fd))
	h.OK("hipMemCreate", &handle, granularity, pinned(), 0)
	h.OK("hipMemExportToShareableHandle", &fd, handle, posixFD, 0)
	d.Want(gpusimtest.InvalidValue, "cuMemImportFromShareableHandle", &size, int(fd), posixFD)
	d.Want(gpusimtest.OperatingSystem, "cuImportExternalMemory", &size, &externalHandle{kind: opaqueFD, fd: fd, size: granularity})
	_ = unix.Close(int(fd))
	h.OK("hipMemRelease", handle)
	failNext(h.Driver, "hipGetDevice", gpusimtest.OutOfMemory)
	d.OK("cuDeviceGet", &device, 0)
	h.Want(gpusimtest.OutOfMemory, "hipGetDevice", &device)
	if n := d.Call("dlx_gpusim_count", cText("hipGetDevice")); n != 0 {
		t.Errorf("CUDA's library counted %d calls of HIP", n)
	}
	d.Holds(cuda, gpusimtest.Pattern(1, page))
	h.Holds(hip, gpusimtest.Pattern(2, page))
	d.OK("cuMemFree_v2", cuda)
	h.OK("hipFree", hip)
}
