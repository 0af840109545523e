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
	h.OK("hipMemcpyAsync", &b[0], at, 1, 2, stream) // to the host
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
	h.Hold()
	h.OK("hipMemsetAsync", at, 2, 1, blocking)
	equal(t, "the memory in a stream of its own", now(h, other, at), 1)
	equal(t, "the memory in the null stream, after a blocking one", now(h, 0, at), 2)
	h.OK("hipMemsetAsync", at, 3, 1, nil)
	equal(t, "the memory in a blocking stream, after the null stream", now(h, blocking, at), 3)
	h.OK("hipMemsetAsync", at, 4, 1, perThread)
	equal(t, "the memory in the null stream, after the thread's", now(h, 0, at), 4)
}

// hipStreamLegacy, which is 1, came with 6.0. clr: a stream that does not exist is hipErrorContextIsDestroyed, of
// hipStreamWaitEvent hipErrorInvalidHandle.
func TestHIPStreamsThatDoNotExist(t *testing.T) {
	const gone, invalid = gpusimtest.ContextIsDestroyed, gpusimtest.InvalidHandle
	version, here := hipVersions(t, "5", "6")
	if !here {
		return
	}
	h := gpusimtest.StartHIP(t)
	event, stream := h.New("hipEventCreateWithFlags", 2), h.New("hipStreamCreateWithFlags", 1)
	defer h.OK("hipEventDestroy", event)
	h.OK("hipStreamDestroy", stream)
	h.WantMisuse(gone, "hipStreamSynchronize", stream)
	h.WantMisuse(gone, "hipStreamQuery", stream)
	h.WantMisuse(gone, "hipMemcpyAsync", 1, 1, 1, byAddress, stream)
	h.WantMisuse(invalid, "hipStreamWaitEvent", stream, event, 0)
	h.WantMisuse(invalid, "hipStreamDestroy", nil)
	h.WantMisuse(gone, "hipEventRecord", event, stream)
	h.WantMisuse(invalid, "hipEventRecord", stream, 0)
	h.WantMisuse(gone, "hipStreamAddCallback", stream, 1, 0, 0)
	h.Want(gpusimtest.InvalidValue, "hipStreamWaitEvent", nil, event, 1)
	h.Want(gpusimtest.InvalidValue, "hipStreamCreateWithFlags", &stream, 2)
	if version == "5" {
		h.WantMisuse(gone, "hipStreamSynchronize", legacy)
	} else {
		h.OK("hipStreamSynchronize", legacy)
		h.WantMisuse(gone, "hipLaunchHostFunc", stream, 1, 0)
	}
}

// hipEventQuery: hipErrorNotReady (600). An event can be recorded on streams of its device only (clr), and waited for on any.
func TestHIPEvents(t *testing.T) {
	const release, both, notReady = 0x40000000, 0xc0000000, gpusimtest.NotReady
	h := gpusimtest.StartHIP(t)
	at, stream := h.Malloc(1), h.Stream(1)
	event, timed := h.New("hipEventCreateWithFlags", release), h.New("hipEventCreateWithFlags", 0)
	var ms float32
	try(t, h.Driver, []attempt{
		{"flags", gpusimtest.InvalidValue, "hipEventCreateWithFlags", []any{new(uint64), 8}},
		{"two releases", gpusimtest.InvalidValue, "hipEventCreateWithFlags", []any{new(uint64), both}},
		{"never recorded", gpusimtest.InvalidHandle, "hipEventElapsedTime", []any{&ms, timed, event}},
		{"no result", gpusimtest.InvalidValue, "hipEventElapsedTime", []any{nil, timed, event}},
	})
	h.Hold()
	h.OK("hipEventQuery", event)
	h.OK("hipEventRecord", timed, stream)
	h.OK("hipMemsetAsync", at, 9, 1, stream)
	h.OK("hipEventRecord", event, stream)
	try(t, h.Driver, []attempt{
		{"the event", notReady, "hipEventQuery", []any{event}},
		{"the time", notReady, "hipEventElapsedTime", []any{&ms, timed, event}},
		{"the stream", notReady, "hipStreamQuery", []any{stream}},
	})

	h.OK("hipSetDevice", 1)
	far, device := h.New("hipStreamCreateWithFlags", 1), int32(0)
	h.OK("hipStreamGetDevice", far, &device)
	equal(t, "the device", [2]int32{device, int32(h.Call("hipGetStreamDeviceId", far))}, [2]int32{1, 1})
	h.Want(gpusimtest.InvalidHandle, "hipEventRecord", event, far)
	h.OK("hipStreamWaitEvent", far, event, 0)
	equal(t, "the memory in the other device's stream", now(h, far, at), 9)
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
	h.OK("hipMemcpyAsync", hostAt, at, 1, byAddress, stream)
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
	at, stream, mode := h.Malloc(1), h.Stream(1), int32(modeRelaxed)
	wantCapture := func(want int32) {
		t.Helper()
		var status int32
		h.OK("hipStreamIsCapturing", stream, &status)
		equal(t, "the status", status, want)
	}
	h.OK("hipMemsetAsync", at, 1, 1, nil)
	h.OK("hipDeviceSynchronize")
	wantCapture(statusNone)
	h.OK("hipStreamBeginCapture", stream, modeGlobal)
	wantCapture(statusActive)
	h.OK("hipThreadExchangeStreamCaptureMode", &mode)
	p := h.New("hipMalloc", 1)
	h.OK("hipThreadExchangeStreamCaptureMode", &mode)
	h.OK("hipMemsetAsync", at, 5, 1, stream)
	var graph uint64
	h.OK("hipStreamEndCapture", stream, &graph)
	h.OK("hipFree", p)
	equal(t, "the memory after the capture", now(h, h.Stream(1), at), 1)
	h.OK("hipGraphDestroy", graph)

	h.OK("hipStreamBeginCapture", stream, modeGlobal)
	h.Want(captureUnsupported, "hipMalloc", &p, 1)
	h.Want(captureInvalidated, "hipStreamEndCapture", stream, &graph)
}
