//go:build linux && cgo

package gpusim_test

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// Of cuMemHostRegister and cuMemHostAlloc.
const (
	portable, deviceMap = 1, 2
	readOnlyMemory      = 8

	alreadyRegistered gpusimtest.Result = 712
	notRegistered     gpusimtest.Result = 713
)

// pages is memory of the host, n pages, that no other test has.
func pages(t *testing.T, n, protection int) []byte {
	t.Helper()
	data, err := unix.Mmap(-1, 0, n*page, protection, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(data) })
	return data
}

// cuMemHostRegister, cuMemHostUnregister: memory is locked by pages, once.
func TestMemoryOfTheHostIsRegisteredOnce(t *testing.T) {
	d := gpusimtest.Start(t)
	data := pages(t, 4, unix.PROT_READ|unix.PROT_WRITE)
	d.OK("cuMemHostRegister_v2", &data[page+100], page, 0)
	for _, c := range []struct {
		name  string
		at    int
		size  uint64
		flags int
		want  gpusimtest.Result
	}{
		{"the same", page + 100, page, 0, alreadyRegistered},
		{"a part", page + 200, 1, 0, alreadyRegistered},
		{"all around it", 0, 4 * page, 0, alreadyRegistered},
		{"a page of it", page, 100, 0, alreadyRegistered},
		{"no bytes", 0, 0, 0, gpusimtest.InvalidValue},
		{"all memory", 0, 1 << 63, 0, gpusimtest.InvalidValue},
		{"flags that nobody knows", 0, page, 64, gpusimtest.InvalidValue},
		{"read-only, which is not supported", 0, page, readOnlyMemory, gpusimtest.NotSupported},
	} {
		d.Run(t, c.name, func(_ *testing.T, d *gpusimtest.Driver) {
			d.Want(c.want, "cuMemHostRegister_v2", &data[c.at], c.size, c.flags)
		})
	}
	d.Want(notRegistered, "cuMemHostUnregister", &data[page])
	d.OK("cuMemHostRegister_v2", &data[0], page, 0)
	d.OK("cuMemHostUnregister", &data[0])
	d.OK("cuMemHostUnregister", &data[page+100])
	d.Want(notRegistered, "cuMemHostUnregister", &data[page+100])
	fixed := pages(t, 1, unix.PROT_READ)
	d.Want(gpusimtest.InvalidValue, "cuMemHostRegister_v2", &fixed[0], page, 0)
}

// CU_MEMHOSTREGISTER_READ_ONLY: "this flag is required in order to register memory mapped to the CPU as read-only";
// CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED says where it is supported.
func TestReadOnlyMemoryOfTheHostIsRegisteredAsSuch(t *testing.T) {
	const supported = 113
	d := gpusimtest.Start(t)
	var can int32
	d.OK("cuDeviceGetAttribute", &can, supported, 0)
	if os.Getenv("DLX_GPUSIM_CHILD") == "" {
		if can != 0 {
			t.Errorf("the attribute is %d", can)
		}
		if out, err := child(t, "supported", "DLX_GPUSIM_READ_ONLY_HOST=1").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if can != 1 {
		t.Errorf("the attribute is %d", can)
	}
	fixed, data := pages(t, 1, unix.PROT_READ), pages(t, 1, unix.PROT_READ|unix.PROT_WRITE)
	d.Want(gpusimtest.InvalidValue, "cuMemHostRegister_v2", &fixed[0], page, deviceMap)
	d.OK("cuMemHostRegister_v2", &fixed[0], page, deviceMap|readOnlyMemory)
	d.OK("cuMemHostRegister_v2", &data[0], page, deviceMap|readOnlyMemory)
	data[1] = 7
	var ptr, at, stream uint64
	d.OK("cuMemAlloc_v2", &ptr, 2)
	d.OK("cuMemHostGetDevicePointer_v2", &at, &data[0], 0)
	d.OK("cuMemcpyDtoDAsync_v2", ptr, at, 2, legacy)
	d.Holds(ptr, []byte{0, 7})
	d.OK("cuMemcpyHtoD_v2", ptr, &fixed[0], 2)
	d.Holds(ptr, []byte{0, 0})
	d.OK("cuMemHostUnregister", &fixed[0])
	d.OK("cuStreamCreate", &stream, 1)
	d.OK("cuMemsetD8Async", at, 1, 1, stream) // the device may only read it
	d.Illegal("cuStreamSynchronize", stream)
	if data[0] != 0 {
		t.Error("the device wrote memory that is read-only to it")
	}
}

// CU_MEMHOSTREGISTER_PORTABLE: "considered as pinned memory by all CUDA contexts, not just the one that performed the
// allocation"; without it, it is pageable memory to others.
func TestRegisteredMemoryIsPinnedInItsContext(t *testing.T) {
	d := gpusimtest.Start(t)
	data := pages(t, 2, unix.PROT_READ|unix.PROT_WRITE)
	private, shared := data[:1], data[page:page+1]
	d.OK("cuMemHostRegister_v2", &private[0], 1, 0)
	d.OK("cuMemHostRegister_v2", &shared[0], 1, portable)
	d.Run(t, "another context", func(t *testing.T, d *gpusimtest.Driver) {
		push(t, d, 1)
		ptr, stream := memory(t, d, 2), d.NewStream()
		private[0], shared[0] = 1, 1
		d.Call("dlx_gpusim_hold", 1)
		d.OK("cuMemcpyAsync", ptr, &private[0], 1, stream)
		d.OK("cuMemcpyAsync", ptr+1, &shared[0], 1, stream)
		private[0], shared[0] = 2, 2
		d.OK("cuStreamSynchronize", stream)
		d.Call("dlx_gpusim_hold", 0)
		d.Holds(ptr, []byte{1, 2})
	})
	d.OK("cuMemHostUnregister", &private[0])
	d.OK("cuMemHostUnregister", &shared[0])
}

// cuMemHostGetDevicePointer "will fail if the CU_MEMHOSTALLOC_DEVICEMAP flag was not specified", which with unified
// addresses all allocations have; cuMemHostGetFlags is for "the pinned host buffer allocated by cuMemHostAlloc".
func TestMappedMemoryOfTheHostHasADevicePointer(t *testing.T) {
	d := gpusimtest.Start(t)
	data := pages(t, 2, unix.PROT_READ|unix.PROT_WRITE)
	var locked, at uint64
	var flags uint32
	d.OK("cuMemHostRegister_v2", &data[0], page, deviceMap)
	d.OK("cuMemHostRegister_v2", &data[page], page, 0)
	d.OK("cuMemHostAlloc", &locked, page, 0)
	d.OK("cuMemHostGetDevicePointer_v2", &at, locked, 0)
	if at != locked {
		t.Errorf("%#x is %#x to the device", locked, at)
	}
	d.OK("cuMemHostGetDevicePointer_v2", &at, &data[0], 0)
	d.OK("cuMemsetD8Async", at, 7, 1, legacy)
	d.OK("cuStreamSynchronize", legacy)
	if data[0] != 7 {
		t.Errorf("the host finds %d where the device wrote 7", data[0])
	}
	d.Want(gpusimtest.InvalidValue, "cuMemHostGetDevicePointer_v2", &at, &data[0], 1)
	d.Want(gpusimtest.InvalidValue, "cuMemHostGetDevicePointer_v2", &at, &data[page], 0)
	d.OK("cuMemHostGetFlags", &flags, locked)
	if flags != deviceMap {
		t.Errorf("the flags are %d", flags)
	}
	d.Want(gpusimtest.InvalidValue, "cuMemHostGetFlags", &flags, &data[0])
	d.OK("cuMemHostUnregister", &data[0])
	d.OK("cuMemHostUnregister", &data[page])
	d.OK("cuMemFreeHost", locked)
}

// CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is 0, so that for registered memory "there will exist
// separate, disjoint host and device addresses": the host's "will correspond to an invalid unmapped device address".
// Copies take both.
func TestRegisteredMemoryHasAnAddressForDevices(t *testing.T) {
	const canUseHostPointer = 91
	d := gpusimtest.Start(t)
	data := pages(t, 1, unix.PROT_READ|unix.PROT_WRITE)
	host := uint64(uintptr(unsafe.Pointer(&data[8])))
	var can int32
	d.OK("cuDeviceGetAttribute", &can, canUseHostPointer, 0)
	if can != 0 {
		t.Errorf("the attribute is %d", can)
	}
	d.OK("cuMemHostRegister_v2", &data[8], 64, deviceMap)
	device := known(d, pointerDevice, host+1) - 1
	if device == host || known(d, pointerHost, device+1) != host+1 || known(d, pointerStart, device+1) != device {
		t.Errorf("the host finds it at %#x, devices at %#x", host, device)
	}
	if kind := known(d, pointerType, device); kind != onHost {
		t.Errorf("it is memory of type %d", kind)
	}
	var ptr, stream uint64
	d.OK("cuMemAlloc_v2", &ptr, 2)
	data[8] = 1
	d.OK("cuMemcpyHtoD_v2", ptr, host, 1)
	d.OK("cuMemcpyAsync", ptr+1, device, 1, legacy)
	d.Holds(ptr, []byte{1, 1})
	d.OK("cuStreamCreate", &stream, 1)
	d.OK("cuMemsetD8Async", host, 2, 1, stream)
	d.Illegal("cuStreamSynchronize", stream)
}

// No section says that cuMemFreeHost waits: work that comes too late fails.
func TestFreeingMemoryOfTheHostWaitsForNothing(t *testing.T) {
	d := gpusimtest.Start(t)
	var stream, locked uint64
	d.OK("cuStreamCreate", &stream, 1)
	d.OK("cuMemHostAlloc", &locked, page, 0)
	d.Call("dlx_gpusim_hold", 1)
	d.OK("cuMemsetD8Async", locked, 1, page, stream)
	d.OK("cuMemFreeHost", locked)
	d.Call("dlx_gpusim_hold", 0)
	d.Illegal("cuStreamSynchronize", stream)
}
