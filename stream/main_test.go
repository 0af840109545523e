package stream_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// checkNoGoroutines fails the test if goroutines that it started outlive it.
func checkNoGoroutines(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<16)
				t.Fatalf("%d goroutines were left behind:\n%s", runtime.NumGoroutine()-before, buf[:runtime.Stack(buf, true)])
			}
		}
	})
}

// newQueue makes a queue that the test closes at its end.
func newQueue(t testing.TB) *stream.Queue {
	q := stream.NewQueue(nil)
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// newBackend makes a simulated backend that copies by Submit.
func newBackend(t testing.TB, o coretest.Options) *coretest.Backend {
	o.Log = t.Logf
	if o.Submit == nil {
		o.Submit = stream.Submit
	}
	return coretest.NewBackend(o)
}

// open opens a device that the test closes at its end.
func open(t testing.TB, b *coretest.Backend, index int32) core.Device {
	t.Helper()
	d, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceExt, Index: index})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// newStream makes a stream that the test closes at its end.
func newStream(t testing.TB, d core.Device) core.Stream {
	t.Helper()
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// host makes a tensor of a slice, which the test closes at its end.
func host[T core.Element](t testing.TB, s []T) *core.Tensor {
	t.Helper()
	x, err := core.FromSlice(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

// empty allocates a tensor on d, which the test closes at its end.
func empty(t testing.TB, d core.Device, dtype core.DType, shape ...int64) *core.Tensor {
	t.Helper()
	x, err := core.Empty(t.Context(), d, dtype, shape, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}
