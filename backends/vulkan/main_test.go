//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/backends/vulkan/internal/faults"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// TestMain puts the functions that can be made to fail in front of the driver's, and
// has coretest count what is left open.
func TestMain(m *testing.M) {
	if proc, err := driver.SystemLoader(); err == nil {
		driver.UseLoader(faults.Loader(proc))
	}
	coretest.Main(m)
}

// open opens the first device with the validation layer, whose messages fail the test.
func open(t testing.TB, opts ...Option) core.Device {
	t.Helper()
	b := New(append(opts, WithValidation())...)
	coretest.NeedDriver(t, b.Probe(context.Background()).Reason, "mesa-vulkan-drivers and vulkan-validationlayers")
	noMessages(t)
	d, err := b.Open(context.Background(), core.DeviceID{Type: core.DeviceVulkan})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// noMessages fails the test if the validation layer says anything from now on.
func noMessages(t testing.TB) {
	before, _ := Messages(0)
	t.Cleanup(func() {
		after, texts := Messages(before)
		for _, text := range texts {
			t.Errorf("the validation layer says: %s", text)
		}
		if len(texts) == 0 && after != before {
			t.Errorf("the validation layer gave %d messages", after-before)
		}
	})
}

// opened is open, for tests that leave closing to the end.
func opened(t testing.TB, opts ...Option) core.Device {
	t.Helper()
	d := open(t, opts...)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// inner is the device without the interfaces around it.
func inner(d core.Device) *device { return d.(interface{ inner() *device }).inner() }

// keep closes a tensor at the test's end.
func keep(t testing.TB) func(*core.Tensor, error) *core.Tensor {
	return func(x *core.Tensor, err error) *core.Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = x.Close() })
		return x
	}
}

// row allocates n bytes on a device.
func row(t testing.TB, d core.Device, n int64, o core.AllocOptions) *core.Tensor {
	t.Helper()
	return keep(t)(core.Empty(context.Background(), d, core.TypeUint8, []int64{n}, o))
}

// pattern is n bytes that differ from those of another seed.
func pattern(n int, seed uint64) []byte {
	p := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(p) // never fails
	return p
}

// put and get move bytes between the host and a row of a device.
func put(t testing.TB, d core.Device, dst *core.Tensor, p []byte) {
	t.Helper()
	src := keep(t)(core.FromSlice(p))
	if err := d.Copy(context.Background(), nil, dst, src); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, d core.Device, src *core.Tensor) []byte {
	t.Helper()
	p := make([]byte, src.NumElements())
	dst := keep(t)(core.FromSlice(p))
	if err := d.Copy(context.Background(), nil, dst, src); err != nil {
		t.Fatal(err)
	}
	return p
}

// descriptors counts the open descriptors of this process.
func descriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// wantError proves that a call failed with an error that wraps the sentinel and names
// backend and call.
func wantError(t testing.TB, err, sentinel error, what string) {
	t.Helper()
	var typed *core.Error
	if !errors.Is(err, sentinel) || !errors.As(err, &typed) || typed.Backend == "" || typed.Call == "" {
		t.Errorf("%s: error %v, want %q with backend and call", what, err, sentinel)
	}
}
