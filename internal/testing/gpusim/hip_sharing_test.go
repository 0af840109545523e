//go:build linux && cgo

package gpusim_test

import (
	"bufio"
	"encoding/hex"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// hipIpcOpenMemHandle: another process opens the memory and an event of this one. In the process itself it fails with
// hipErrorInvalidContext; what cannot be attached is hipErrorInvalidDevicePointer (clr).
func TestHIPMemoryIsSharedBetweenProcesses(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	if os.Getenv("DLX_GPUSIM_CHILD") != "" {
		in := asPeer{bufio.NewScanner(os.Stdin)}
		memory, state := in.handle(t), in.handle(t)
		var at, event uint64
		stream := h.Stream(1)
		h.OK("hipIpcOpenEventHandle", &event, state)
		h.OK("hipIpcOpenMemHandle", &at, memory, 1)
		h.OK("hipStreamWaitEvent", stream, event, 0)
		if got := now(h, stream, at); got != 3 {
			t.Errorf("the memory holds %d", got)
		}
		h.OK("hipMemsetAsync", at, 4, 1, nil)
		h.OK("hipDeviceSynchronize")
		h.OK("hipIpcCloseMemHandle", at)
		h.Want(gpusimtest.InvalidValue, "hipIpcCloseMemHandle", at)
		h.OK("hipEventDestroy", event)
		return
	}
	at, stream := h.Malloc(page), h.Stream(1)
	const interprocess, timing = 6, 4
	var event, p uint64
	var memory, state gpusimtest.Handle
	h.Want(gpusimtest.InvalidValue, "hipEventCreateWithFlags", &event, timing)
	h.OK("hipEventCreateWithFlags", &event, interprocess)
	h.OK("hipIpcGetMemHandle", &memory, at)
	h.OK("hipIpcGetEventHandle", &state, event)
	h.OK("hipMemsetAsync", at, 3, 1, stream)
	h.OK("hipEventRecord", event, stream)
	h.Want(gpusimtest.InvalidContext, "hipIpcOpenMemHandle", &p, memory, 1)
	h.Want(gpusimtest.InvalidValue, "hipIpcOpenMemHandle", &p, memory, 0) // hipIpcMemLazyEnablePeerAccess before 6.0
	h.Want(gpusimtest.InvalidValue, "hipIpcGetMemHandle", &memory, at+1)

	c := child(t, "peer")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte(hex.EncodeToString(memory[:]) + "\n" + hex.EncodeToString(state[:]) + "\n")); err != nil {
		t.Fatal(err)
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	h.Holds(at, []byte{4})
	h.OK("hipEventDestroy", event)
}

// hipImportExternalMemory: AMD's runtime maps what the descriptor refers to and leaves it open, and what it cannot map is
// hipErrorOutOfMemory (clr; rocclr, interopMapBuffer). hipExternalMemoryGetMappedBuffer: "must be freed using hipFree".
func TestHIPImportsMemoryOfVulkan(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	const size = 2 * page
	fd := lavapipeFile(t, size)
	defer func() { _ = unix.Close(fd) }()
	vulkan, err := unix.Mmap(fd, page, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(vulkan) }()
	copy(vulkan, gpusimtest.Pattern(3, size))
	var memory, at uint64
	desc := externalHandle{kind: opaqueFD, fd: int32(fd), size: size}
	h.OK("hipImportExternalMemory", &memory, &desc)
	if !isOpen(fd) {
		t.Fatal("the descriptor was closed")
	}
	h.OK("hipExternalMemoryGetMappedBuffer", &at, memory, &externalBuffer{size: size})
	h.Holds(at, gpusimtest.Pattern(3, size))
	h.Write(at+100, []byte("written by HIP"))
	if got := string(vulkan[100:114]); got != "written by HIP" {
		t.Errorf("Vulkan finds %q", got)
	}
	h.OK("hipFree", at)
	h.OK("hipDestroyExternalMemory", memory)
	if !isOpen(fd) {
		t.Error("the descriptor was closed")
	}
	for _, c := range []struct {
		change func(*externalHandle)
		want   gpusimtest.Result
	}{
		{func(d *externalHandle) { d.fd = 999 }, gpusimtest.OutOfMemory},
		{func(d *externalHandle) { d.size = size + page }, gpusimtest.OutOfMemory},
		{func(d *externalHandle) { d.kind = 2 }, gpusimtest.OutOfMemory},
		{func(d *externalHandle) { d.kind = 0 }, gpusimtest.InvalidValue},
		{func(d *externalHandle) { d.size = 0 }, gpusimtest.InvalidValue},
		{func(d *externalHandle) { d.flags = 2 }, gpusimtest.InvalidValue},
	} {
		bad := desc
		c.change(&bad)
		h.Want(c.want, "hipImportExternalMemory", &memory, &bad)
	}
}

// On Linux AMD's runtime has no importExtSemaphore: hipErrorNotSupported. A variable offers timelines.
func TestHIPSemaphores(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	timeline := int(h.Call("dlx_gpusim_timeline_new"))
	defer func() { _ = unix.Close(timeline) }()
	var semaphore uint64
	if os.Getenv("DLX_GPUSIM_CHILD") == "" {
		h.Want(gpusimtest.NotSupported, "hipImportExternalSemaphore", &semaphore, &externalSemaphore{kind: 1, fd: int32(timeline)})
		h.Want(gpusimtest.InvalidValue, "hipImportExternalSemaphore", &semaphore, &externalSemaphore{kind: timelineFD, fd: int32(timeline)})
		if out, err := child(t, "offered", "DLX_GPUSIM_HIP_SEMAPHORES=1").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	h.OK("hipImportExternalSemaphore", &semaphore, &externalSemaphore{kind: timelineFD, fd: int32(timeline)})
	if !isOpen(timeline) {
		t.Fatal("the descriptor was closed")
	}
	stream := h.Stream(1)
	at := h.Malloc(1)
	parameters := [36]uint32{5}
	h.OK("hipWaitExternalSemaphoresAsync", &semaphore, &parameters, 1, stream)
	h.OK("hipMemsetAsync", at, 1, 1, stream)
	h.Want(gpusimtest.NotReady, "hipStreamQuery", stream)
	if r := int32(h.Call("dlx_gpusim_timeline_signal", timeline, 5)); r != 0 {
		t.Fatal(r)
	}
	h.OK("hipStreamSynchronize", stream)
	parameters[0] = 6
	h.OK("hipSignalExternalSemaphoresAsync", &semaphore, &parameters, 1, stream)
	h.OK("hipStreamSynchronize", stream)
	var v uint64
	if r := int32(h.Call("dlx_gpusim_timeline_value", timeline, &v)); r != 0 || v != 6 {
		t.Errorf("the timeline is at %d (%d)", v, r)
	}
	h.OK("hipDestroyExternalSemaphore", semaphore)
}

// "Virtual Memory Management", since 6.0. hipMemImportFromShareableHandle takes a pointer to the descriptor, since 7.1 the
// descriptor itself. hipMemGetHandleForAddressRange came with 7, hsa_amd_portable_export_dmabuf with ROCm 5.3.
func TestHIPMapsMemory(t *testing.T) {
	version, here := hipVersions(t, "5", "6", "7")
	if !here {
		return
	}
	h := gpusimtest.StartHIP(t)
	var handle, at, imported, second uint64
	prop := pinned()
	if version == "5" {
		h.Want(gpusimtest.NotSupported, "hipMemCreate", &handle, granularity, prop, 0)
		return
	}
	var smallest uint64
	h.OK("hipMemGetAllocationGranularity", &smallest, prop, 0)
	if smallest != granularity {
		t.Errorf("the granularity is %d", smallest)
	}
	h.Want(gpusimtest.InvalidValue, "hipMemCreate", &handle, granularity+1, prop, 0)
	h.OK("hipMemCreate", &handle, granularity, prop, 0)
	h.OK("hipMemAddressReserve", &at, granularity, 0, 0, 0)
	h.OK("hipMemMap", at, granularity, 0, handle, 0)
	data := []byte{1}
	const unknown gpusimtest.Result = 999
	h.Want(unknown, "hipMemcpyAsync", at, &data[0], 1, 1, nil) // nobody may use it yet (clr, ihipMemcpy_validate)
	h.OK("hipMemSetAccess", at, granularity, &access{location{1, 0}, readWrite}, 1)
	h.Write(at, gpusimtest.Pattern(1, 100))
	fd := int32(-1)
	h.OK("hipMemExportToShareableHandle", &fd, handle, posixFD, 0)
	if version == "6" {
		h.WantMisuse(gpusimtest.InvalidValue, "hipMemImportFromShareableHandle", &imported, int(fd), posixFD)
		h.OK("hipMemImportFromShareableHandle", &imported, &fd, posixFD)
	} else {
		h.OK("hipMemImportFromShareableHandle", &imported, int(fd), posixFD)
	}
	_ = unix.Close(int(fd))
	h.OK("hipMemAddressReserve", &second, granularity, 0, 0, 0)
	h.OK("hipMemMap", second, granularity, 0, imported, 0)
	h.OK("hipMemSetAccess", second, granularity, &access{location{1, 0}, readWrite}, 1)
	h.Holds(second, gpusimtest.Pattern(1, 100))
	for _, m := range [][2]uint64{{at, handle}, {second, imported}} {
		h.OK("hipMemUnmap", m[0], granularity)
		h.OK("hipMemAddressFree", m[0], granularity)
		h.OK("hipMemRelease", m[1])
	}

	prop.handles = 0
	h.OK("hipMemCreate", &handle, granularity, prop, 0)
	h.OK("hipMemAddressReserve", &at, granularity, 0, 0, 0)
	h.OK("hipMemMap", at, granularity, 0, handle, 0)
	h.OK("hipMemSetAccess", at, granularity, &access{location{1, 0}, readWrite}, 1)
	h.Write(at, []byte("a dma-buf"))
	var offset uint64
	var offered bool
	h.OK("hsa_system_get_info", 0x204, &offered) // HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED
	if !offered {
		t.Error("no dma-bufs are offered")
	}
	h.OK("hsa_amd_portable_export_dmabuf", at, granularity, &fd, &offset)
	got := make([]byte, 9)
	if _, err := unix.Pread(int(fd), got, int64(offset)); err != nil || string(got) != "a dma-buf" {
		t.Errorf("the dma-buf holds %q (%v)", got, err)
	}
	h.OK("hsa_amd_portable_close_dmabuf", int(fd))
	if has := h.Has("hipMemGetHandleForAddressRange"); has != (version == "7") {
		t.Errorf("hipMemGetHandleForAddressRange is there: %v", has)
	} else if has {
		h.OK("hipMemGetHandleForAddressRange", &fd, at, granularity, 1, 0)
		_ = unix.Close(int(fd))
	}
	h.OK("hipMemUnmap", at, granularity)
	h.OK("hipMemAddressFree", at, granularity)
	h.OK("hipMemRelease", handle)
}

// hipMemRetainAllocationHandle counts the handle since 7.15. Before, a release of it takes the reference of whoever made the
// memory, and memory that is not mapped ends the process.
func TestHIPRetainsMappedMemory(t *testing.T) {
	if os.Getenv("DLX_GPUSIM_CHILD") == "" {
		for _, minor := range []string{"14", "15"} {
			if out, err := child(t, "minor", "DLX_GPUSIM_HIP_VERSION=7", "DLX_GPUSIM_HIP_MINOR="+minor).CombinedOutput(); err != nil {
				t.Errorf("HIP 7.%s: %v\n%s", minor, err, out)
			}
		}
		return
	}
	h := gpusimtest.StartHIP(t)
	counts := os.Getenv("DLX_GPUSIM_HIP_MINOR") == "15"
	var runtime int32
	h.OK("hipRuntimeGetVersion", &runtime)
	if counts != (runtime >= 71500000) {
		t.Errorf("the version is %d", runtime)
	}
	var handle, again, at uint64
	h.OK("hipMemCreate", &handle, granularity, pinned(), 0)
	h.OK("hipMemAddressReserve", &at, granularity, 0, 0, 0)
	h.OK("hipMemMap", at, granularity, 0, handle, 0)
	h.OK("hipMemRetainAllocationHandle", &again, at+4096)
	if again != handle {
		t.Errorf("the handle is %#x, want %#x", again, handle)
	}
	h.OK("hipMemRelease", again)
	if counts {
		h.OK("hipMemRelease", handle)
	} else {
		h.WantMisuse(gpusimtest.InvalidValue, "hipMemRelease", handle)
	}
	h.OK("hipMemUnmap", at, granularity)
	h.OK("hipMemAddressFree", at, granularity)
	if p := h.Malloc(page); counts {
		h.Want(gpusimtest.InvalidValue, "hipMemRetainAllocationHandle", &again, p)
	} else {
		h.WantMisuse(gpusimtest.InvalidValue, "hipMemRetainAllocationHandle", &again, p)
	}
}
