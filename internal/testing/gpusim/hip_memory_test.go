//go:build linux && cgo

package gpusim_test

import (
	"testing"
	"unsafe"

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

// hipMalloc: "If size is 0, no memory is allocated, *ptr returns nullptr, and hipSuccess is returned". hipFree: "If pointer is
// NULL, the hip runtime is initialized and hipSuccess is returned".
func TestHIPMemory(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	at := uint64(1)
	h.OK("hipMalloc", &at, 0)
	if at != 0 {
		t.Errorf("no bytes lie at %#x", at)
	}
	h.OK("hipFree", 0)
	h.OK("hipHostFree", 0)
	h.Want(gpusimtest.OutOfMemory, "hipMalloc", &at, 1<<50)
	h.Want(gpusimtest.InvalidValue, "hipMalloc", nil, 1)

	const n = 3 * page
	at = h.Malloc(n)
	h.Write(at, gpusimtest.Pattern(1, n))
	h.Holds(at, gpusimtest.Pattern(1, n))
	var base, size, free, total uint64
	h.OK("hipMemGetAddressRange", &base, &size, at+17)
	h.OK("hipMemGetInfo", &free, &total)
	if base != at || size != n || total-free != n {
		t.Errorf("%d bytes at %#x, %d of %d are free", size, base, free, total)
	}
	h.Want(gpusimtest.NotFound, "hipMemGetAddressRange", &base, &size, at+n)
	h.WantMisuse(gpusimtest.InvalidValue, "hipFree", at+1)
	data := make([]byte, n+1)
	h.Want(gpusimtest.InvalidValue, "hipMemcpyDtoH", &data[0], at, n+1)
	const wrongDirection gpusimtest.Result = 21
	h.Want(wrongDirection, "hipMemcpyAsync", at, &data[0], 1, 7, nil)
}

// hipFree "implicitly synchronizes" (clr: SyncAllStreams).
func TestHIPFreesWhatNoWorkUses(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	var from uint64
	h.OK("hipMalloc", &from, page)
	h.Write(from, gpusimtest.Pattern(5, page))
	host, to := h.Pinned(page)
	stream := h.Stream(1)
	hold(t, h.Driver)
	h.OK("hipMemcpyAsync", to, from, page, 4, stream)
	if host[3] != 0 {
		t.Error("the work is done already")
	}
	h.OK("hipFree", from)
	if host[3] != gpusimtest.Pattern(5, page)[3] {
		t.Error("hipFree did not wait")
	}
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
	of := func(at uint64) (a hipPointer) {
		t.Helper()
		h.OK("hipPointerGetAttributes", &a, at)
		return a
	}
	at := h.Malloc(page)
	if got, want := of(at+5), (hipPointer{device, 0, at + 5, 0, 0, 0}); got != want {
		t.Errorf("memory of a device is %+v, want %+v", got, want)
	}
	const portable = 1
	var pinnedAt, managedAt, twin uint64
	h.OK("hipHostMalloc", &pinnedAt, page, portable)
	if got, want := of(pinnedAt+5), (hipPointer{host, 0, pinnedAt + 5, pinnedAt + 5, 0, portable}); got != want {
		t.Errorf("pinned memory is %+v, want %+v", got, want)
	}
	var flags uint32
	h.OK("hipHostGetFlags", &flags, pinnedAt)
	if flags != portable {
		t.Errorf("its flags are %d", flags)
	}
	h.OK("hipHostFree", pinnedAt)
	h.OK("hipMallocManaged", &managedAt, page, 1)
	if got := of(managedAt); got.kind != managedKind || got.managed != 1 || got.hostPtr != managedAt {
		t.Errorf("managed memory is %+v", got)
	}
	h.OK("hipFree", managedAt)

	memory := pages(t, 2, unix.PROT_READ|unix.PROT_WRITE)
	own := uint64(uintptr(unsafe.Pointer(&memory[0])))
	var a hipPointer
	if version == "5" {
		h.Want(gpusimtest.InvalidValue, "hipPointerGetAttributes", &a, own)
	} else if got, want := of(own), (hipPointer{device: -2}); got != want {
		t.Errorf("memory of the program is %+v", got)
	}
	h.OK("hipHostRegister", own, len(memory), 0)
	h.OK("hipHostGetDevicePointer", &twin, own, 0)
	for _, p := range []uint64{own, twin} {
		if got, want := of(p+1), (hipPointer{host, 0, twin + 1, own + 1, 0, 0}); got != want {
			t.Errorf("registered memory at %#x is %+v, want %+v", p, got, want)
		}
	}
	h.Want(gpusimtest.InvalidValue, "hipHostGetFlags", &flags, own)
	const registered, unregistered gpusimtest.Result = 712, 713
	h.Want(registered, "hipHostRegister", own, 1, 0)
	h.OK("hipHostUnregister", own)
	h.Want(unregistered, "hipHostUnregister", own)
	h.Want(gpusimtest.InvalidValue, "hipPointerGetAttributes", &a, 0)
}

// hipMemcpy3DParms counts bytes.
func TestHIPCopiesBoxes(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	const width, height, depth, pitch, rows = 5, 3, 2, 16, 4
	data := gpusimtest.Pattern(9, pitch*rows*depth)
	from, to := h.Malloc(len(data)), h.Malloc(width*height*depth)
	h.Write(from, data)
	type side struct{ x, y, _, ptr, pitch, _, rows uint64 }
	type parameters struct { // hipMemcpy3DParms
		srcArray uint64
		src      side
		_        uint64
		dst      side
		extent   [3]uint64
		kind     int32
		_        int32
	}
	p := parameters{
		src: side{x: 2, y: 1, ptr: from, pitch: pitch, rows: rows}, dst: side{ptr: to, pitch: width, rows: height},
		extent: [3]uint64{width, height, depth}, kind: 4,
	}
	stream := h.Stream(1)
	h.OK("hipMemcpy3DAsync", &p, stream)
	h.OK("hipStreamSynchronize", stream)
	var want []byte
	for z := range depth {
		for y := range height {
			first := z*pitch*rows + (y+1)*pitch + 2
			want = append(want, data[first:first+width]...)
		}
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
	h := gpusimtest.StartHIP(t)
	here := h.Malloc(page)
	h.OK("hipSetDevice", 1)
	there := h.Malloc(page)
	h.Write(there, gpusimtest.Pattern(2, page))
	h.OK("hipSetDevice", 0)
	h.OK("hipMemcpyAsync", here, there, page, 4, nil)
	h.OK("hipStreamSynchronize", nil)
	h.Holds(here, gpusimtest.Pattern(2, page))
	h.OK("hipMemsetAsync", here, 7, page, nil)
	h.OK("hipMemcpyPeerAsync", there, 1, here, 0, page, nil)
	h.OK("hipDeviceSynchronize")
	h.OK("hipSetDevice", 1)
	h.Holds(there, []byte{7, 7, 7})
	h.Want(gpusimtest.InvalidDevice, "hipMemcpyPeerAsync", there, 1, here, 5, page, nil)
	const enabled gpusimtest.Result = 704
	h.OK("hipDeviceEnablePeerAccess", 0, 0)
	h.Want(enabled, "hipDeviceEnablePeerAccess", 0, 0)
}
