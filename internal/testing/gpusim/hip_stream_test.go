//go:build linux && cgo

package gpusim_test

import (
	"testing"
	"time"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// now reads a byte with no order to the work of other streams.
func now(h *gpusimtest.HIP, stream, at uint64) byte {
	var b [1]byte
	h.OK("hipMemcpyAsync", &b[0], at, 1, 2, stream)
	h.OK("hipStreamSynchronize", stream)
	return b[0]
}

// hipStreamCreateWithFlags, hipStreamNonBlocking: "Stream does not implicitly synchronize with null stream". Others do, on
// the null stream of their device.
func TestHIPsNullStreamIsInOrderWithBlockingStreams(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	at, blocking, other := h.Malloc(1), h.Stream(0), h.Stream(1)
	h.OK("hipMemsetAsync", at, 1, 1, nil)
	h.OK("hipDeviceSynchronize")
	hold(t, h.Driver)
	h.OK("hipMemsetAsync", at, 2, 1, blocking)
	if got := now(h, other, at); got != 1 {
		t.Errorf("a stream of its own waited: %d", got)
	}
	if got := now(h, 0, at); got != 2 {
		t.Errorf("the null stream did not wait for a blocking one: %d", got)
	}
	h.OK("hipMemsetAsync", at, 3, 1, nil)
	if got := now(h, blocking, at); got != 3 {
		t.Errorf("a blocking stream did not wait for the null stream: %d", got)
	}
	h.OK("hipMemsetAsync", at, 4, 1, perThread)
	if got := now(h, 0, at); got != 4 {
		t.Errorf("the null stream did not wait for the thread's: %d", got)
	}
}

// hipStreamLegacy, which is 1, came with 6.0. clr: a stream that does not exist is hipErrorContextIsDestroyed, of
// hipStreamWaitEvent hipErrorInvalidHandle.
func TestHIPStreamsThatDoNotExist(t *testing.T) {
	version, here := hipVersions(t, "5", "6")
	if !here {
		return
	}
	h := gpusimtest.StartHIP(t)
	var stream, event uint64
	if version == "5" {
		h.WantMisuse(gpusimtest.ContextIsDestroyed, "hipStreamSynchronize", legacy)
	} else {
		h.OK("hipStreamSynchronize", legacy)
	}
	h.OK("hipEventCreateWithFlags", &event, 2)
	defer h.OK("hipEventDestroy", event)
	h.OK("hipStreamCreateWithFlags", &stream, 1)
	h.OK("hipStreamDestroy", stream)
	h.WantMisuse(gpusimtest.ContextIsDestroyed, "hipStreamSynchronize", stream)
	h.WantMisuse(gpusimtest.ContextIsDestroyed, "hipStreamQuery", stream)
	h.WantMisuse(gpusimtest.ContextIsDestroyed, "hipMemcpyAsync", 1, 1, 1, 4, stream)
	h.WantMisuse(gpusimtest.InvalidHandle, "hipStreamWaitEvent", stream, event, 0)
	h.WantMisuse(gpusimtest.InvalidHandle, "hipStreamDestroy", nil)
	h.WantMisuse(gpusimtest.ContextIsDestroyed, "hipEventRecord", event, stream)
	h.WantMisuse(gpusimtest.InvalidHandle, "hipEventRecord", stream, 0)
	if version != "5" {
		h.WantMisuse(gpusimtest.ContextIsDestroyed, "hipLaunchHostFunc", stream, 1, 0)
	}
	h.WantMisuse(gpusimtest.ContextIsDestroyed, "hipStreamAddCallback", stream, 1, 0, 0)
	h.Want(gpusimtest.InvalidValue, "hipStreamWaitEvent", nil, event, 1)
	h.Want(gpusimtest.InvalidValue, "hipStreamCreateWithFlags", &stream, 2)
}

// hipEventQuery: hipErrorNotReady (600). An event can be recorded on streams of its device only (clr), and waited for on any.
func TestHIPEvents(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	at, stream := h.Malloc(1), h.Stream(1)
	const release, both = 0x40000000, 0xc0000000
	var timed, event, far uint64
	var ms float32
	var device int32
	h.Want(gpusimtest.InvalidValue, "hipEventCreateWithFlags", &event, 8)
	h.Want(gpusimtest.InvalidValue, "hipEventCreateWithFlags", &event, both)
	h.OK("hipEventCreateWithFlags", &event, release)
	h.OK("hipEventCreateWithFlags", &timed, 0)
	h.Want(gpusimtest.InvalidHandle, "hipEventElapsedTime", &ms, timed, event)
	h.Want(gpusimtest.InvalidValue, "hipEventElapsedTime", nil, timed, event)
	hold(t, h.Driver)
	h.OK("hipEventQuery", event)
	h.OK("hipEventRecord", timed, stream)
	h.OK("hipMemsetAsync", at, 9, 1, stream)
	h.OK("hipEventRecord", event, stream)
	h.Want(gpusimtest.NotReady, "hipEventQuery", event)
	h.Want(gpusimtest.NotReady, "hipEventElapsedTime", &ms, timed, event)
	h.Want(gpusimtest.NotReady, "hipStreamQuery", stream)

	h.OK("hipSetDevice", 1)
	h.OK("hipStreamCreateWithFlags", &far, 1)
	h.OK("hipStreamGetDevice", far, &device)
	if got := int32(h.Call("hipGetStreamDeviceId", far)); device != 1 || got != 1 {
		t.Errorf("the stream is of device %d and %d", device, got)
	}
	h.Want(gpusimtest.InvalidHandle, "hipEventRecord", event, far)
	h.OK("hipStreamWaitEvent", far, event, 0)
	if got := now(h, far, at); got != 9 {
		t.Errorf("the other device's stream did not wait: %d", got)
	}
	h.OK("hipStreamDestroy", far)
	h.OK("hipSetDevice", 0)

	h.OK("hipStreamSynchronize", stream)
	h.OK("hipEventElapsedTime", &ms, timed, event)
	if ms < 0 {
		t.Errorf("it took %v ms", ms)
	}
	h.OK("hipEventDestroy", event)
	h.OK("hipEventDestroy", timed)
	h.WantMisuse(gpusimtest.ContextIsDestroyed, "hipEventDestroy", event)
}

// hipLaunchHostFunc: host functions must not call HIP, as in CUDA. They run in the order of the stream.
func TestHIPHostFunctions(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	host, hostAt := h.Pinned(1)
	at, stream := h.Malloc(1), h.Stream(1)
	work := h.NewHostWork(&host[0], time.Millisecond, "hipGetDevice")
	h.OK("hipMemsetAsync", at, 6, 1, stream)
	h.OK("hipMemcpyAsync", hostAt, at, 1, 4, stream)
	h.OK("hipLaunchHostFunc", stream, work.Function(), work.Data())
	h.OK("hipStreamSynchronize", stream)
	if work.Runs() != 1 || work.Saw() != 6 || work.Result() != gpusimtest.NotSupported {
		t.Errorf("it ran %d times, saw %d, and its call returned %d", work.Runs(), work.Saw(), work.Result())
	}
	h.Noted()
}

// hipStreamBeginCapture with hipStreamCaptureModeGlobal (0): hipMalloc is "unsafe" and invalidates the capture, unless the
// thread's mode is relaxed (2) (clr, CHECK_STREAM_CAPTURE_SUPPORTED).
func TestHIPCaptures(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	at, stream := h.Malloc(1), h.Stream(1)
	h.OK("hipMemsetAsync", at, 1, 1, nil)
	h.OK("hipDeviceSynchronize")
	const unsupported, invalidated gpusimtest.Result = 900, 901
	var status, mode int32
	var graph, p uint64
	h.OK("hipStreamIsCapturing", stream, &status)
	if status != 0 {
		t.Errorf("the status is %d", status)
	}
	h.OK("hipStreamBeginCapture", stream, 0)
	h.OK("hipStreamIsCapturing", stream, &status)
	if status != 1 {
		t.Errorf("the status is %d", status)
	}
	mode = 2
	h.OK("hipThreadExchangeStreamCaptureMode", &mode)
	h.OK("hipMalloc", &p, 1)
	h.OK("hipThreadExchangeStreamCaptureMode", &mode)
	h.OK("hipMemsetAsync", at, 5, 1, stream)
	h.OK("hipStreamEndCapture", stream, &graph)
	h.OK("hipFree", p)
	other := h.Stream(1)
	if got := now(h, other, at); got != 1 {
		t.Errorf("what was captured has run: %d", got)
	}
	h.OK("hipGraphDestroy", graph)

	h.OK("hipStreamBeginCapture", stream, 0)
	h.Want(unsupported, "hipMalloc", &p, 1)
	h.Want(invalidated, "hipStreamEndCapture", stream, &graph)
}
