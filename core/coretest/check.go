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

// WantError fails the test unless err wraps the sentinel error and is a [core.Error] that
// names backend and call. what describes the call in the message.
func WantError(tb testing.TB, err, sentinel error, what string) {
	tb.Helper()
	var typed *core.Error
	if !errors.Is(err, sentinel) || !errors.As(err, &typed) || typed.Backend == "" || typed.Call == "" {
		tb.Errorf("%s: error %v, want %q with backend and call", what, err, sentinel)
	}
}

// Descriptors returns the number of open descriptors of this process. It returns 0 on
// systems other than Linux.
func Descriptors() int {
	dir, err := os.Open("/proc/self/fd") // this also makes the runtime open its poller, so that later counts include it
	if err != nil {
		return 0
	}
	defer dir.Close()
	open, _ := dir.Readdirnames(-1)
	return len(open)
}

// SettledDescriptors is [Descriptors] when none has been opened or closed for a tenth of a second.
func SettledDescriptors() int {
	n, since := Descriptors(), time.Now()
	for time.Since(since) < 100*time.Millisecond {
		time.Sleep(10 * time.Millisecond)
		if now := Descriptors(); now != n {
			n, since = now, time.Now()
		}
	}
	return n
}

// WantDescriptors ends the test with an error unless this process has want descriptors open.
// It waits up to 10 seconds, because threads of a driver may open descriptors for a moment.
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

// Keep returns a function that takes the results of a call that makes a tensor. The function
// ends the test on an error. Otherwise it returns the tensor, which is closed at the end of
// the test. For example: t := Keep(tb)(core.FromSlice(s)).
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

// OpenSimulated opens the first device of a new [Backend], and closes it at the end of the test. The host cannot access
// its memory.
func OpenSimulated(tb testing.TB, o Options) core.Device {
	tb.Helper()
	b := NewBackend(o)
	d, err := b.Open(tb.Context(), b.properties(0).ID)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

// Row allocates a tensor of n bytes on a device. It is closed at the end of the test.
func Row(tb testing.TB, d core.Device, n int64, o core.AllocOptions) *core.Tensor {
	tb.Helper()
	return Keep(tb)(core.Empty(context.Background(), d, core.TypeUint8, []int64{n}, o))
}

// Pattern returns n pseudo-random bytes that depend on the low 16 bits of seed.
func Pattern(n int, seed uint64) []byte {
	p := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(p) // never fails
	return p
}

// Put copies p to dst, a tensor of bytes on d, and returns when the copy is done.
func Put(tb testing.TB, d core.Device, dst *core.Tensor, p []byte) {
	tb.Helper()
	if err := d.Copy(context.Background(), nil, dst, Keep(tb)(core.FromSlice(p))); err != nil {
		tb.Fatal(err)
	}
}

// Get returns the bytes of src, a tensor of bytes on d.
func Get(tb testing.TB, d core.Device, src *core.Tensor) []byte {
	tb.Helper()
	p := make([]byte, src.NumElements())
	if err := d.Copy(context.Background(), nil, Keep(tb)(core.FromSlice(p)), src); err != nil {
		tb.Fatal(err)
	}
	return p
}
