//go:build linux && cgo

package gpusimtest

import (
	"bytes"
	"runtime"
	"testing"
	"unsafe"
)

const hipVariable = "DLX_HIP_LIBRARY"

// HIP is the simulated library of HIP, as one test uses it. A Result is a hipError_t.
type HIP struct{ *Driver }

// StartHIP is [Start] for the library that DLX_HIP_LIBRARY names. The thread's device is device 0.
func StartHIP(tb testing.TB) *HIP {
	tb.Helper()
	d := start(tb, hipVariable, "hipInit")
	d.hip = true
	d.OK("hipSetDevice", 0)
	tb.Cleanup(func() { d.OK("hipSetDevice", 0) })
	return &HIP{d}
}

// Run runs a subtest, which has a thread of its own.
func (h *HIP) Run(t *testing.T, name string, f func(*testing.T, *HIP)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		runtime.LockOSThread() // for good: see [Driver.Run]
		f(t, &HIP{&Driver{Library: h.Library, tb: t, hip: true}})
	})
}

// Malloc allocates memory of the thread's device, which is freed when the test ends.
func (h *HIP) Malloc(n int) (at uint64) {
	h.tb.Helper()
	h.OK("hipMalloc", &at, n)
	h.tb.Cleanup(func() { h.OK("hipFree", at) })
	return at
}

// Pinned returns n zero bytes of pinned host memory, which is valid until the test ends, and their address.
func (h *HIP) Pinned(n int) ([]byte, uint64) {
	h.tb.Helper()
	var at unsafe.Pointer
	h.OK("hipHostMalloc", &at, n, 0)
	h.tb.Cleanup(func() { h.OK("hipHostFree", uint64(uintptr(at))) })
	data := unsafe.Slice((*byte)(at), n)
	clear(data)
	return data, uint64(uintptr(at))
}

// Stream makes a stream, which is destroyed when the test ends.
func (h *HIP) Stream(flags int) (stream uint64) {
	h.tb.Helper()
	h.OK("hipStreamCreateWithFlags", &stream, flags)
	h.tb.Cleanup(func() { h.OK("hipStreamDestroy", stream) })
	return stream
}

// Illegal calls a function that must report an illegal access, and resets the device.
func (h *HIP) Illegal(name string, args ...any) {
	h.tb.Helper()
	h.WantMisuse(IllegalAddress, name, args...)
	h.Want(Success, "hipDeviceReset")
}

// Write copies bytes to device memory before it returns.
func (h *HIP) Write(to uint64, data []byte) {
	h.tb.Helper()
	h.OK("hipMemcpyHtoD", to, &data[0], len(data))
}

// Read copies n bytes from device memory.
func (h *HIP) Read(from uint64, n int) []byte {
	h.tb.Helper()
	data := make([]byte, n)
	h.OK("hipMemcpyDtoH", &data[0], from, n)
	return data
}

// Holds fails the test unless device memory at an address begins with the bytes.
func (h *HIP) Holds(at uint64, want []byte) {
	h.tb.Helper()
	if got := h.Read(at, len(want)); !bytes.Equal(got, want) {
		h.tb.Fatalf("the memory begins with % x, want % x", got[:min(16, len(got))], want[:min(16, len(want))])
	}
}
