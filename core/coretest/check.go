package coretest

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// WantError proves that a call failed with an error that wraps the sentinel, and that is a
// [core.Error] which names backend and call.
func WantError(tb testing.TB, err, sentinel error, what string) {
	tb.Helper()
	var typed *core.Error
	if !errors.Is(err, sentinel) || !errors.As(err, &typed) || typed.Backend == "" || typed.Call == "" {
		tb.Errorf("%s: error %v, want %q with backend and call", what, err, sentinel)
	}
}

// Descriptors is how many descriptors this process has open, where the system tells (Linux), and else 0.
func Descriptors() int {
	dir, err := os.Open("/proc/self/fd") // a first file, for which the runtime opens what it polls with
	if err != nil {
		return 0
	}
	defer dir.Close()
	open, _ := dir.Readdirnames(-1)
	return len(open)
}

// WantDescriptors proves that this process has so many descriptors open. Those that threads
// of a driver have open for a moment are waited for; where the number stays another, the test ends.
func WantDescriptors(tb testing.TB, want int, what string) {
	tb.Helper()
	now := Descriptors()
	for end := time.Now().Add(10 * time.Second); now != want && time.Now().Before(end); now = Descriptors() {
		time.Sleep(time.Millisecond)
	}
	if now != want {
		tb.Fatalf("%s: %d descriptors are open, want %d", what, now, want)
	}
}

// Keep is for the results of what makes a tensor: the test's end closes it, an error ends the test.
func Keep(tb testing.TB) func(*core.Tensor, error) *core.Tensor {
	return func(x *core.Tensor, err error) *core.Tensor {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = x.Close() })
		return x
	}
}

// Row allocates n bytes on a device until the test's end.
func Row(tb testing.TB, d core.Device, n int64, o core.AllocOptions) *core.Tensor {
	tb.Helper()
	return Keep(tb)(core.Empty(context.Background(), d, core.TypeUint8, []int64{n}, o))
}

// Pattern is n bytes that differ from those of another seed.
func Pattern(n int, seed uint64) []byte {
	p := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(p) // never fails
	return p
}

// Put writes bytes to a row of a device, and returns when they are there.
func Put(tb testing.TB, d core.Device, dst *core.Tensor, p []byte) {
	tb.Helper()
	if err := d.Copy(context.Background(), nil, dst, Keep(tb)(core.FromSlice(p))); err != nil {
		tb.Fatal(err)
	}
}

// Get reads the bytes of a row of a device.
func Get(tb testing.TB, d core.Device, src *core.Tensor) []byte {
	tb.Helper()
	p := make([]byte, src.NumElements())
	if err := d.Copy(context.Background(), nil, Keep(tb)(core.FromSlice(p)), src); err != nil {
		tb.Fatal(err)
	}
	return p
}
