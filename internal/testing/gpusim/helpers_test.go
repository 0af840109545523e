//go:build linux && cgo

package gpusim_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

type (
	driver = gpusimtest.Driver
	result = gpusimtest.Result
)

const (
	page      = 4096
	legacy    = 1 // CU_STREAM_LEGACY
	perThread = 2 // CU_STREAM_PER_THREAD
)

// equal fails the test unless a value is what is wanted.
func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %#v, want %#v", what, got, want)
	}
}

// attempt is a call, and what it must return.
type attempt struct {
	what string
	want result
	call string
	args []any
}

// try makes calls.
func try(t *testing.T, d *driver, attempts []attempt) {
	t.Helper()
	for _, a := range attempts {
		if got := d.Result(a.call, a.args...); got != a.want {
			t.Errorf("%s (%s): %s, want %s", a.what, a.call, d.Name(got), d.Name(a.want))
		}
	}
}

// memory is n bytes of the device that hold zeros, until the test ends.
func memory(t *testing.T, d *driver, n int) (ptr uint64) {
	t.Helper()
	ptr = d.New("cuMemAlloc_v2", n)
	t.Cleanup(func() { d.OK("cuMemFree_v2", ptr) })
	d.Write(ptr, make([]byte, n))
	return ptr
}

// newEvent makes an event until the test ends.
func newEvent(t *testing.T, d *driver, flags int) (event uint64) {
	t.Helper()
	event = d.New("cuEventCreate", flags)
	t.Cleanup(func() { d.OK("cuEventDestroy_v2", event) })
	return event
}

// push makes a device's primary context current until the test ends, above the one that is.
func push(t *testing.T, d *driver, device int) (ctx uint64) {
	t.Helper()
	ctx = d.New("cuDevicePrimaryCtxRetain", device)
	d.OK("cuCtxPushCurrent_v2", ctx)
	t.Cleanup(func() {
		d.OK("cuCtxPopCurrent_v2", nil)
		d.OK("cuDevicePrimaryCtxRelease_v2", device)
	})
	return ctx
}

// fill sets bytes of memory in the order of a stream.
func fill(d *driver, at uint64, value byte, n int, stream uint64) {
	d.OK("cuMemsetD8Async", at, value, n, stream)
}

// wantByte fails unless memory holds a byte now. It reads with no order to the work of other streams.
func wantByte(t *testing.T, d *driver, at uint64, want byte, when string) {
	t.Helper()
	equal(t, "the memory "+when, peek(d, at), want)
}

func peek(d *driver, at uint64) byte {
	stream, host := d.New("cuStreamCreate", 1), make([]byte, 1)
	d.OK("cuMemcpyAsync", &host[0], at, 1, stream)
	d.OK("cuStreamSynchronize", stream)
	d.OK("cuStreamDestroy_v2", stream)
	return host[0]
}

// cText is a text that ends with 0.
func cText(s string) *byte { return &append([]byte(s), 0)[0] }

// atOnce is what keeps the race detector, in the environment of another process, from waiting a second at its end.
func atOnce() string { return "GORACE=" + os.Getenv("GORACE") + " atexit_sleep_ms=0" }

// role is what this process does if child started it.
func role() string { return os.Getenv("DLX_GPUSIM_CHILD") }

// child is this test in a process of its own.
func child(t *testing.T, role string, env ...string) *exec.Cmd {
	t.Helper()
	//nolint:gosec // this program itself
	c := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	c.Env = append(append(os.Environ(), "DLX_GPUSIM_CHILD="+role, atOnce()), env...)
	return c
}

// succeeds runs the test in a process of its own, which must succeed.
func succeeds(t *testing.T, role string, env ...string) {
	t.Helper()
	if out, err := child(t, role, env...).CombinedOutput(); err != nil {
		t.Errorf("%s %v: %v\n%s", role, env, err, out)
	}
}

// faults runs the test in a process of its own, which must touch memory that is not its own.
func faults(t *testing.T, role string, env ...string) {
	t.Helper()
	if out, err := child(t, role, env...).CombinedOutput(); err == nil || !strings.Contains(string(out), "SIGSEGV") {
		t.Errorf("%s %v: %v\n%s", role, env, err, out)
	}
}

// runAlone runs the test in a process of its own, which has the variables. It reports whether it did: in that process it
// does not.
func runAlone(t *testing.T, env ...string) bool {
	t.Helper()
	if role() != "" {
		return false
	}
	succeeds(t, "alone", env...)
	return true
}
