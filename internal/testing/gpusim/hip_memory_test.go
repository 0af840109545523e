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

// hipPointer is hipPointerAttribute_t.
type hipPointer struct {
	kind, device       int32
	devicePtr, hostPtr uint64
	managed            int32
	flags              uint32
}

// describe is what HIP knows of an address.
func describe(h *gpusimtest.HIP, at uint64) (a hipPointer) {
	h.OK("hipPointerGetAttributes", &a, at)
	return a
}

// Of hipMemcpyKind.
const (
	hostToDevice = 1
	byAddress    = 4
)

// hipMalloc: "If size is 0, no memory is allocated, *ptr returns nullptr, and hipSuccess is returned". hipFree: "If pointer is
// NULL, the hip runtime is initialized and hipSuccess is returned".
func TestHIPMemory(t *testing.T) {
	const n = 3 * page
	const wrongDirection result = 21
	h := gpusimtest.StartHIP(t)
	none := uint64(1)
	h.OK("hipMalloc", &none, 0)
	equal(t, "the address of no bytes", none, 0)
	at, data := h.Malloc(n), make([]byte, n+1)
	h.Write(at, gpusimtest.Pattern(1, n))
	h.Holds(at, gpusimtest.Pattern(1, n))
	var base, size, free, total uint64
	h.OK("hipMemGetAddressRange", &base, &size, at+17)
	h.OK("hipMemGetInfo", &free, &total)
	equal(t, "the range and the memory in use", [3]uint64{base, size, total - free}, [3]uint64{at, n, n})
	try(t, h.Driver, []attempt{
		{"nothing", 0, "hipFree", []any{0}},
		{"nothing", 0, "hipHostFree", []any{0}},
		{"more than there is", gpusimtest.OutOfMemory, "hipMalloc", []any{&base, 1 << 50}},
		{"no result", gpusimtest.InvalidValue, "hipMalloc", []any{nil, 1}},
		{"beyond the end", gpusimtest.NotFound, "hipMemGetAddressRange", []any{&base, &size, at + n}},
		{"more than there is", gpusimtest.InvalidValue, "hipMemcpyDtoH", []any{&data[0], at, n + 1}},
		{"no direction", wrongDirection, "hipMemcpyAsync", []any{at, &data[0], 1, 7, nil}},
	})
	h.WantMisuse(gpusimtest.InvalidValue, "hipFree", at+1)
}

// hipFree "implicitly synchronizes" (clr: SyncAllStreams).
func TestHIPFreesWhatNoWorkUses(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	from, stream := h.New("hipMalloc", page), h.Stream(1)
	h.Write(from, gpusimtest.Pattern(5, page))
	host, to := h.Pinned(page)
	h.Hold()
	h.OK("hipMemcpyAsync", to, from, page, byAddress, stream)
	equal(t, "the host before", host[3], 0)
	h.OK("hipFree", from)
	equal(t, "the host after hipFree", host[3], gpusimtest.Pattern(5, page)[3])
}

// hip_runtime_api.h: hipMemoryType has the host as 0 and a device as 1 in 5.x; since 6.0 0 is unregistered, the host
// 1, a device 2, and managed memory 3. In 5.x an unknown pointer is an error; since 6.0 it is unregistered and of device -2
// (hipInvalidDeviceId; clr, hipPointerGetAttributes).
func TestHIPDescribesPointers(t *testing.T) {
	version, here := hipVersions(t, "5", "6")
	if !here {
		return
	}
	host, device, managedKind := int32(0), int32(1), int32(0)
	if version == "6" {
		host, device, managedKind = 1, 2, 3
	}
	h := gpusimtest.StartHIP(t)
	at, pinned, managed := h.Malloc(page), h.New("hipHostMalloc", page, portable), h.New("hipMallocManaged", page, 1)
	equal(t, "memory of a device", describe(h, at+5), hipPointer{device, 0, at + 5, 0, 0, 0})
	equal(t, "pinned memory", describe(h, pinned+5), hipPointer{host, 0, pinned + 5, pinned + 5, 0, portable})
	equal(t, "its flags", h.New("hipHostGetFlags", pinned), portable)
	got := describe(h, managed)
	equal(t, "managed memory", hipPointer{got.kind, 0, 0, got.hostPtr, got.managed, 0}, hipPointer{managedKind, 0, 0, managed, 1, 0})
	h.OK("hipHostFree", pinned)
	h.OK("hipFree", managed)

	memory := pages(t, 2, unix.PROT_READ|unix.PROT_WRITE)
	own := addressOf(memory)
	if version == "5" {
		h.Want(gpusimtest.InvalidValue, "hipPointerGetAttributes", &got, own)
	} else {
		equal(t, "memory of the program", describe(h, own), hipPointer{device: -2})
	}
	h.OK("hipHostRegister", own, len(memory), 0)
	twin := h.New("hipHostGetDevicePointer", own, 0)
	for _, p := range []uint64{own, twin} {
		equal(t, "registered memory", describe(h, p+1), hipPointer{host, 0, twin + 1, own + 1, 0, 0})
	}
	try(t, h.Driver, []attempt{
		{"flags of registered memory", gpusimtest.InvalidValue, "hipHostGetFlags", []any{new(uint64), own}},
		{"once more", alreadyRegistered, "hipHostRegister", []any{own, 1, 0}},
		{"once", 0, "hipHostUnregister", []any{own}},
		{"twice", notRegistered, "hipHostUnregister", []any{own}},
		{"nothing", gpusimtest.InvalidValue, "hipPointerGetAttributes", []any{&got, 0}},
	})
}

// hipMemcpy3DParms counts bytes.
func TestHIPCopiesBoxes(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	const width, height, depth, pitch, rows = 5, 3, 2, 16, 4
	data, stream := gpusimtest.Pattern(9, pitch*rows*depth), h.Stream(1)
	from, to := h.Malloc(len(data)), h.Malloc(width*height*depth)
	h.Write(from, data)
	type side struct{ x, y, _, ptr, pitch, _, rows uint64 }
	p := struct { // hipMemcpy3DParms
		srcArray uint64
		src      side
		_        uint64
		dst      side
		extent   [3]uint64
		kind     int32
		_        int32
	}{
		src: side{x: 2, y: 1, ptr: from, pitch: pitch, rows: rows}, dst: side{ptr: to, pitch: width, rows: height},
		extent: [3]uint64{width, height, depth}, kind: byAddress,
	}
	h.OK("hipMemcpy3DAsync", &p, stream)
	h.OK("hipStreamSynchronize", stream)
	var want []byte
	for row := range height * depth {
		first := row/height*pitch*rows + (row%height+1)*pitch + 2
		want = append(want, data[first:first+width]...)
	}
	h.Holds(to, want)
	p.src.rows = 2
	h.Want(gpusimtest.InvalidValue, "hipMemcpy3DAsync", &p, stream)
	p.srcArray = 1
	h.Want(gpusimtest.NotSupported, "hipMemcpy3DAsync", &p, stream)
}

// hipMemcpyAsync: "if this is not done, the hipMemcpy will still work, but will perform the copy using a staging buffer on the
// host": copies need no hipDeviceEnablePeerAccess.
func TestHIPCopiesBetweenDevices(t *testing.T) {
	const enabled result = 704
	h := gpusimtest.StartHIP(t)
	here := h.Malloc(page)
	h.OK("hipSetDevice", 1)
	there := h.Malloc(page)
	h.Write(there, gpusimtest.Pattern(2, page))
	h.OK("hipSetDevice", 0)
	h.OK("hipMemcpyAsync", here, there, page, byAddress, nil)
	h.OK("hipStreamSynchronize", nil)
	h.Holds(here, gpusimtest.Pattern(2, page))
	h.OK("hipMemsetAsync", here, 7, page, nil)
	h.OK("hipMemcpyPeerAsync", there, 1, here, 0, page, nil)
	h.OK("hipDeviceSynchronize")
	h.OK("hipSetDevice", 1)
	h.Holds(there, []byte{7, 7, 7})
	h.Want(gpusimtest.InvalidDevice, "hipMemcpyPeerAsync", there, 1, here, 5, page, nil)
	h.OK("hipDeviceEnablePeerAccess", 0, 0)
	h.Want(enabled, "hipDeviceEnablePeerAccess", 0, 0)
}

// hipIpcOpenMemHandle: another process opens the memory and an event of this one. In the process itself it fails with
// hipErrorInvalidContext; what cannot be attached is hipErrorInvalidDevicePointer (clr).
func TestHIPMemoryIsSharedBetweenProcesses(t *testing.T) {
	const interprocess, timing = 6, 4
	h := gpusimtest.StartHIP(t)
	stream := h.Stream(1)
	if role() != "" {
		in := asPeer{bufio.NewScanner(os.Stdin)}
		memory, state := in.handle(t), in.handle(t)
		event, at := h.New("hipIpcOpenEventHandle", state), h.New("hipIpcOpenMemHandle", memory, 1)
		h.OK("hipStreamWaitEvent", stream, event, 0)
		equal(t, "the memory", now(h, stream, at), 3)
		h.OK("hipMemsetAsync", at, 4, 1, nil)
		h.OK("hipDeviceSynchronize")
		h.OK("hipIpcCloseMemHandle", at)
		h.Want(gpusimtest.InvalidValue, "hipIpcCloseMemHandle", at)
		h.OK("hipEventDestroy", event)
		return
	}
	at, event := h.Malloc(page), h.New("hipEventCreateWithFlags", interprocess)
	var memory, state gpusimtest.Handle
	h.OK("hipIpcGetMemHandle", &memory, at)
	h.OK("hipIpcGetEventHandle", &state, event)
	h.OK("hipMemsetAsync", at, 3, 1, stream)
	h.OK("hipEventRecord", event, stream)
	h.Want(gpusimtest.InvalidValue, "hipEventCreateWithFlags", new(uint64), timing)
	h.Want(gpusimtest.InvalidContext, "hipIpcOpenMemHandle", new(uint64), memory, 1)
	h.Want(gpusimtest.InvalidValue, "hipIpcOpenMemHandle", new(uint64), memory, 0) // hipIpcMemLazyEnablePeerAccess before 6.0
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
	vulkan := mapFile(t, fd, page, size)
	copy(vulkan, gpusimtest.Pattern(3, size))
	desc := externalHandle{kind: opaqueFD, fd: int32(fd), size: size}
	memory := h.New("hipImportExternalMemory", &desc)
	equal(t, "the descriptor is open", isOpen(fd), true)
	at := h.New("hipExternalMemoryGetMappedBuffer", memory, &externalBuffer{size: size})
	h.Holds(at, gpusimtest.Pattern(3, size))
	h.Write(at+100, []byte("written by HIP"))
	equal(t, "what Vulkan finds", string(vulkan[100:114]), "written by HIP")
	h.OK("hipFree", at)
	h.OK("hipDestroyExternalMemory", memory)
	equal(t, "the descriptor is open", isOpen(fd), true)
	for _, c := range []struct {
		name   string
		change func(*externalHandle)
		want   result
	}{
		{"no descriptor", func(d *externalHandle) { d.fd = 999 }, gpusimtest.OutOfMemory},
		{"more than there is", func(d *externalHandle) { d.size = size + page }, gpusimtest.OutOfMemory},
		{"a handle of Windows", func(d *externalHandle) { d.kind = 2 }, gpusimtest.OutOfMemory},
		{"no kind", func(d *externalHandle) { d.kind = 0 }, gpusimtest.InvalidValue},
		{"no bytes", func(d *externalHandle) { d.size = 0 }, gpusimtest.InvalidValue},
		{"flags", func(d *externalHandle) { d.flags = 2 }, gpusimtest.InvalidValue},
	} {
		bad := desc
		c.change(&bad)
		equal(t, c.name, h.Result("hipImportExternalMemory", &memory, &bad), c.want)
	}
}

// On Linux AMD's runtime has no importExtSemaphore: hipErrorNotSupported. A variable offers timelines.
func TestHIPSemaphores(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	fd := int(h.Call("dlx_gpusim_timeline_new"))
	defer func() { _ = unix.Close(fd) }()
	binary, timeline := externalSemaphore{kind: 1, fd: int32(fd)}, externalSemaphore{kind: timelineFD, fd: int32(fd)}
	if runAlone(t, "DLX_GPUSIM_HIP_SEMAPHORES=1") {
		h.Want(gpusimtest.NotSupported, "hipImportExternalSemaphore", new(uint64), &binary)
		h.Want(gpusimtest.InvalidValue, "hipImportExternalSemaphore", new(uint64), &timeline)
		return
	}
	semaphore := h.New("hipImportExternalSemaphore", &timeline)
	equal(t, "the descriptor is open", isOpen(fd), true)
	stream, at := h.Stream(1), h.Malloc(1)
	parameters := [36]uint32{5}
	h.OK("hipWaitExternalSemaphoresAsync", &semaphore, &parameters, 1, stream)
	h.OK("hipMemsetAsync", at, 1, 1, stream)
	h.Want(gpusimtest.NotReady, "hipStreamQuery", stream)
	h.OK("dlx_gpusim_timeline_signal", fd, 5)
	h.OK("hipStreamSynchronize", stream)
	parameters[0] = 6
	h.OK("hipSignalExternalSemaphoresAsync", &semaphore, &parameters, 1, stream)
	h.OK("hipStreamSynchronize", stream)
	wantValue(t, h.Driver, fd, 6)
	h.OK("hipDestroyExternalSemaphore", semaphore)
}

// mappingHIP maps memory at a new reservation. Its end undoes all but the memory.
func mappingHIP(t *testing.T, h *gpusimtest.HIP, handle uint64) (at uint64, end func()) {
	t.Helper()
	at = h.New("hipMemAddressReserve", granularity, 0, 0, 0)
	h.OK("hipMemMap", at, granularity, 0, handle, 0)
	return at, func() {
		h.OK("hipMemUnmap", at, granularity)
		h.OK("hipMemAddressFree", at, granularity)
	}
}

// "Virtual Memory Management", since 6.0. hipMemImportFromShareableHandle takes a pointer to the descriptor, since 7.1 the
// descriptor itself. hipMemGetHandleForAddressRange came with 7, hsa_amd_portable_export_dmabuf with ROCm 5.3.
func TestHIPMapsMemory(t *testing.T) {
	const unknown result = 999
	const dmaBufSupported = 0x204 // HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED
	version, here := hipVersions(t, "5", "6", "7")
	if !here {
		return
	}
	h := gpusimtest.StartHIP(t)
	prop, fd := pinned(), int32(-1)
	if version == "5" {
		h.Want(gpusimtest.NotSupported, "hipMemCreate", new(uint64), granularity, prop, 0)
		return
	}
	equal(t, "the granularity", h.New("hipMemGetAllocationGranularity", prop, 0), granularity)
	h.Want(gpusimtest.InvalidValue, "hipMemCreate", new(uint64), granularity+1, prop, 0)
	handle := h.New("hipMemCreate", granularity, prop, 0)
	at, end := mappingHIP(t, h, handle)
	// Nobody may use it yet (clr, ihipMemcpy_validate).
	h.Want(unknown, "hipMemcpyAsync", at, &make([]byte, 1)[0], 1, hostToDevice, nil)
	h.OK("hipMemSetAccess", at, granularity, &openTo0, 1)
	h.Write(at, gpusimtest.Pattern(1, 100))
	h.OK("hipMemExportToShareableHandle", &fd, handle, posixFD, 0)
	var imported uint64
	if version == "6" {
		h.WantMisuse(gpusimtest.InvalidValue, "hipMemImportFromShareableHandle", &imported, int(fd), posixFD)
		h.OK("hipMemImportFromShareableHandle", &imported, &fd, posixFD)
	} else {
		h.OK("hipMemImportFromShareableHandle", &imported, int(fd), posixFD)
	}
	_ = unix.Close(int(fd))
	second, endSecond := mappingHIP(t, h, imported)
	h.OK("hipMemSetAccess", second, granularity, &openTo0, 1)
	h.Holds(second, gpusimtest.Pattern(1, 100))
	end()
	endSecond()
	h.OK("hipMemRelease", handle)
	h.OK("hipMemRelease", imported)

	prop.handles = 0
	handle = h.New("hipMemCreate", granularity, prop, 0)
	at, end = mappingHIP(t, h, handle)
	h.OK("hipMemSetAccess", at, granularity, &openTo0, 1)
	h.Write(at, []byte("a dma-buf"))
	var offset uint64
	var offered bool
	h.OK("hsa_system_get_info", dmaBufSupported, &offered)
	equal(t, "dma-bufs are offered", offered, true)
	h.OK("hsa_amd_portable_export_dmabuf", at, granularity, &fd, &offset)
	got := make([]byte, 9)
	if _, err := unix.Pread(int(fd), got, int64(offset)); err != nil || string(got) != "a dma-buf" {
		t.Errorf("the dma-buf holds %q (%v)", got, err)
	}
	h.OK("hsa_amd_portable_close_dmabuf", int(fd))
	equal(t, "hipMemGetHandleForAddressRange is there", h.Has("hipMemGetHandleForAddressRange"), version == "7")
	if version == "7" {
		h.OK("hipMemGetHandleForAddressRange", &fd, at, granularity, 1, 0)
		_ = unix.Close(int(fd))
	}
	end()
	h.OK("hipMemRelease", handle)
}

// hipMemRetainAllocationHandle counts the handle since 7.15. Before, a release of it takes the reference of whoever made the
// memory, and memory that is not mapped ends the process.
func TestHIPRetainsMappedMemory(t *testing.T) {
	const minor = "DLX_GPUSIM_HIP_MINOR"
	if role() == "" {
		succeeds(t, "minor", hipVersion+"=7", minor+"=14")
		succeeds(t, "minor", hipVersion+"=7", minor+"=15")
		return
	}
	h := gpusimtest.StartHIP(t)
	var runtime int32
	h.OK("hipRuntimeGetVersion", &runtime)
	want := h.WantMisuse
	counts := os.Getenv(minor) == "15"
	equal(t, "the version is at least 7.15", runtime >= 71500000, counts)
	handle := h.New("hipMemCreate", granularity, pinned(), 0)
	at, end := mappingHIP(t, h, handle)
	equal(t, "the handle", h.New("hipMemRetainAllocationHandle", at+4096), handle)
	h.OK("hipMemRelease", handle)
	if counts {
		h.OK("hipMemRelease", handle)
		want = h.Want
	} else {
		h.WantMisuse(gpusimtest.InvalidValue, "hipMemRelease", handle)
	}
	end()
	want(gpusimtest.InvalidValue, "hipMemRetainAllocationHandle", new(uint64), h.Malloc(page))
}
