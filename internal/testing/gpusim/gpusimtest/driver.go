//go:build linux && cgo

package gpusimtest

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

// Result is a CUresult.
type Result int32

// The results that tests name.
const (
	Success                Result = 0
	InvalidValue           Result = 1
	OutOfMemory            Result = 2
	NotInitialized         Result = 3
	NoDevice               Result = 100
	InvalidDevice          Result = 101
	InvalidContext         Result = 201
	MapFailed              Result = 205
	AlreadyMapped          Result = 208
	NotMapped              Result = 211
	InvalidGraphicsContext Result = 219
	OperatingSystem        Result = 304
	InvalidHandle          Result = 400
	NotFound               Result = 500
	NotReady               Result = 600
	IllegalAddress         Result = 700
	ContextIsDestroyed     Result = 709
	NotPermitted           Result = 800
	NotSupported           Result = 801
	Timeout                Result = 909
)

// Driver is the simulated driver, as one test uses it.
type Driver struct {
	*Library
	tb     testing.TB
	ctx    uint64 // the context that was made current last
	device int    // of it
	hip    bool   // it is HIP's library
}

// Start opens the driver that DLX_CUDA_LIBRARY names, locks the goroutine to its thread, and makes the
// primary context of device 0 current there. At the end of the test, no more objects may be open than at the
// start, and no misuse may be recorded. The test is skipped if the variable is not set. If it names no
// driver, the test fails; with DLX_WITHOUT_DRIVERS=1 it is skipped.
func Start(tb testing.TB) *Driver {
	tb.Helper()
	d := start(tb, "DLX_CUDA_LIBRARY", "cuInit")
	d.Retain(0)
	return d
}

// start opens the driver that a variable names, and initialises it.
func start(tb testing.TB, variable, init string) *Driver {
	tb.Helper()
	path := os.Getenv(variable)
	if path == "" {
		tb.Skip(variable + " names no driver: make gpusim builds the simulated one, scripts/software-drivers.sh names it")
	}
	l, err := Open(path)
	switch {
	case err == nil:
	case os.Getenv("DLX_WITHOUT_DRIVERS") == "1":
		tb.Skip(err)
	case variable == hipVariable && os.Getenv("TAGS") != "" && !strings.Contains(os.Getenv("TAGS"), "rocm"):
		tb.Skip("TAGS has no rocm, so make has not built the simulated library of HIP")
	default:
		tb.Fatalf("%v: make gpusim builds the simulated driver; DLX_WITHOUT_DRIVERS=1 skips its tests", err)
	}
	d := &Driver{Library: l, tb: tb}
	runtime.LockOSThread()
	d.OK(init, 0)
	before := d.Live()
	tb.Cleanup(func() {
		if m := d.Misuse(); m != "" {
			tb.Errorf("misuse was recorded:\n%s", m)
		}
		d.Call("dlx_gpusim_clear_misuse")
		if left := d.Live(); left != before {
			tb.Errorf("open at the end:\n%s\nbefore:\n%s", left, before)
		}
		runtime.UnlockOSThread()
	})
	return d
}

// Retain makes a device's primary context current on this thread until the test ends.
func (d *Driver) Retain(device int) {
	d.tb.Helper()
	d.device = device
	d.OK("cuDevicePrimaryCtxRetain", &d.ctx, device)
	d.OK("cuCtxSetCurrent", d.ctx)
	d.tb.Cleanup(func() {
		d.OK("cuCtxSetCurrent", nil)
		d.OK("cuDevicePrimaryCtxRelease_v2", device)
	})
}

// Run runs a subtest, which has a thread of its own, with the same context current.
func (d *Driver) Run(t *testing.T, name string, f func(*testing.T, *Driver)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		sub := &Driver{Library: d.Library, tb: t, ctx: d.ctx, device: d.device}
		runtime.LockOSThread() // for good: cleanups of the subtest need its thread, and run after f
		sub.OK("cuCtxSetCurrent", d.ctx)
		defer sub.OK("cuCtxSetCurrent", nil)
		f(t, sub)
	})
}

// Result calls a function that returns a CUresult, and returns that.
func (d *Driver) Result(name string, args ...any) Result { return Result(int32(d.Call(name, args...))) }

// OK calls a function that must succeed.
func (d *Driver) OK(name string, args ...any) {
	d.tb.Helper()
	d.Want(Success, name, args...)
}

// New calls a function that must succeed, and returns the handle or address that it leaves where its first argument
// points.
func (d *Driver) New(name string, args ...any) (made uint64) {
	d.tb.Helper()
	d.OK(name, append([]any{&made}, args...)...)
	return made
}

// Want calls a function that must return what is wanted.
func (d *Driver) Want(want Result, name string, args ...any) {
	d.tb.Helper()
	if got := d.Result(name, args...); got != want {
		d.tb.Fatalf("%s returns %s, want %s", name, d.Name(got), d.Name(want))
	}
}

// WantMisuse is Want for a call that must also be recorded as misuse.
func (d *Driver) WantMisuse(want Result, name string, args ...any) {
	d.tb.Helper()
	d.Want(want, name, args...)
	d.Noted()
}

// Context returns the context that Start or Retain made current.
func (d *Driver) Context() uint64 { return d.ctx }

// Await returns when the work that an event stands for is done: it waits for a stream that waits for the event.
func (d *Driver) Await(event uint64) {
	d.tb.Helper()
	const nonBlocking = 1
	var stream uint64
	d.OK("cuStreamCreate", &stream, nonBlocking)
	d.OK("cuStreamWaitEvent", stream, event, 0)
	d.OK("cuStreamSynchronize", stream)
	d.OK("cuStreamDestroy_v2", stream)
}

// Illegal calls a function that must report an illegal access. This ends the current context, and the device
// gets a new one.
func (d *Driver) Illegal(name string, args ...any) {
	d.tb.Helper()
	d.WantMisuse(IllegalAddress, name, args...)
	d.Renew()
}

// Renew ends the current context, which has failed, and makes a new one of its device current.
func (d *Driver) Renew() {
	d.tb.Helper()
	d.OK("cuCtxSetCurrent", nil)
	d.OK("cuDevicePrimaryCtxRelease_v2", d.device) // which waits for all that is left
	d.OK("cuDevicePrimaryCtxRetain", &d.ctx, d.device)
	d.OK("cuCtxSetCurrent", d.ctx)
}

// Pinned returns n zero bytes of pinned host memory, which is valid until the test ends. Copies of it are
// asynchronous.
func (d *Driver) Pinned(n int) []byte {
	d.tb.Helper()
	var at unsafe.Pointer
	d.OK("cuMemHostAlloc", &at, n, 0)
	d.tb.Cleanup(func() { d.OK("cuMemFreeHost", uint64(uintptr(at))) })
	data := unsafe.Slice((*byte)(at), n)
	clear(data)
	return data
}

// Hold keeps work from running, except work that a call waits for, until its result is called or the test ends.
func (d *Driver) Hold() (release func()) {
	release = func() { d.Call("dlx_gpusim_hold", 0) }
	d.Call("dlx_gpusim_hold", 1)
	d.tb.Cleanup(release)
	return release
}

// Fail has the next call of a function fail.
func (d *Driver) Fail(name string, code Result) {
	d.Call("dlx_gpusim_fail", &append([]byte(name), 0)[0], 1, int(code))
}

// Noted fails the test unless misuse was recorded since the last call of Noted, and clears the record.
func (d *Driver) Noted() {
	d.tb.Helper()
	if d.Misuse() == "" {
		d.tb.Error("no misuse was recorded")
	}
	d.Call("dlx_gpusim_clear_misuse")
}

// Name returns the driver's name of a result.
func (d *Driver) Name(r Result) string {
	if d.hip {
		return fmt.Sprintf("%s (%d)", d.Text("hipGetErrorName", int(r)), r)
	}
	return fmt.Sprintf("%s (%d)", d.string("cuGetErrorName", int(r)), r)
}

// Live lists the open objects, one line for each kind with its number. Objects that ended with their context
// are not open.
func (d *Driver) Live() string {
	var open strings.Builder
	for line := range strings.Lines(d.text("dlx_gpusim_live")) {
		if !strings.HasPrefix(line, "abandoned ") {
			open.WriteString(line)
		}
	}
	return open.String()
}

// Misuse returns the recorded misuse since it was cleared.
func (d *Driver) Misuse() string { return d.text("dlx_gpusim_misuse") }

// text asks a control function for its text.
func (d *Driver) text(name string) string {
	buf := make([]byte, 1<<16)
	d.Call(name, &buf[0], len(buf))
	text, _, _ := bytes.Cut(buf, []byte{0})
	return string(text)
}

// Write copies bytes to device memory before it returns.
func (d *Driver) Write(to uint64, data []byte) {
	d.tb.Helper()
	d.OK("cuMemcpyHtoD_v2", to, &data[0], len(data))
}

// Read copies n bytes from device memory.
func (d *Driver) Read(from uint64, n int) []byte {
	d.tb.Helper()
	data := make([]byte, n)
	d.OK("cuMemcpyDtoH_v2", &data[0], from, n)
	return data
}

// Holds fails the test unless device memory at an address begins with the bytes.
func (d *Driver) Holds(at uint64, want []byte) {
	d.tb.Helper()
	if got := d.Read(at, len(want)); !bytes.Equal(got, want) {
		d.tb.Fatalf("the memory begins with % x, want % x", got[:min(16, len(got))], want[:min(16, len(want))])
	}
}

// NewStream makes a non-blocking stream, which is destroyed when the test ends.
func (d *Driver) NewStream() uint64 {
	d.tb.Helper()
	const nonBlocking = 1
	var stream uint64
	d.OK("cuStreamCreate", &stream, nonBlocking)
	d.tb.Cleanup(func() { d.OK("cuStreamDestroy_v2", stream) })
	return stream
}

// Pattern returns n bytes that differ from those of another seed and from their neighbours.
func Pattern(seed byte, n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = seed + byte(i) ^ byte(i>>8)
	}
	return data
}
