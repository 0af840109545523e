//go:build webgpu && linux && cgo

package barewebgpu

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/webgpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Each way of the loop moves the bytes, and no others.
func TestLoopCopies(t *testing.T) {
	backend := webgpu.New()
	coretest.NeedDriver(t, backend.Probe(t.Context()).Reason, "libwgpu_native of PyPI's package wgpu, and mesa-vulkan-drivers")
	d, err := backend.Open(t.Context(), core.DeviceID{Type: core.DeviceWebGPU})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	native, err := webgpu.DeviceOf(d)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(native)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const size, first, n = 4096, 8, 1024
	var buffers [2]uintptr
	for i := range buffers {
		m, err := core.Alloc(t.Context(), d, size, core.AllocOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Free()
		buffers[i] = m.Handle
	}
	sent, got := make([]byte, n), make([]byte, size)
	for i := range sent {
		sent[i] = byte(i*i>>3) | 1
	}
	address := func(b []byte) uintptr {
		at, err := coretest.Keep(t)(core.FromSlice(b)).Address()
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	checkErrors(t, l, buffers, size, address(got))
	for range 2 { // the second time, the buffer that the host reads is there
		if took, err := l.Upload(buffers[0], first, address(sent), n, 3); err != nil || took <= 0 {
			t.Fatalf("Upload: %v, %v", took, err)
		}
		if took, err := l.Within(buffers[1], 2*first, buffers[0], first, n, 3); err != nil || took <= 0 {
			t.Fatalf("Within: %v, %v", took, err)
		}
		if took, err := l.Download(address(got), buffers[1], 0, size, 3); err != nil || took <= 0 {
			t.Fatalf("Download: %v, %v", took, err)
		}
		want := make([]byte, size) // a buffer begins with zeros
		copy(want[2*first:], sent)
		if !bytes.Equal(got, want) {
			t.Error("the bytes that arrived are not those that were sent")
		}
	}
}

// checkErrors has the library refuse copies, and expects the first error of each.
func checkErrors(t *testing.T, l *Loop, buffers [2]uintptr, size int64, host uintptr) {
	t.Helper()
	beyond := size + 4
	for name, f := range map[string]func() (time.Duration, error){
		"Within to a place beyond the buffer": func() (time.Duration, error) { return l.Within(buffers[1], 8, buffers[0], 0, size, 2) },
		"Within of an odd size":               func() (time.Duration, error) { return l.Within(buffers[1], 0, buffers[0], 0, 3, 2) },
		"Upload to a place beyond the buffer": func() (time.Duration, error) { return l.Upload(buffers[0], 8, host, size, 2) },
		"Download from beyond the buffer":     func() (time.Duration, error) { return l.Download(host, buffers[0], 4, size, 2) },
		"Download of more than the buffer":    func() (time.Duration, error) { return l.Download(host, buffers[0], 0, beyond, 2) },
		"Download of a petabyte":              func() (time.Duration, error) { return l.Download(host, buffers[0], 0, 1<<50, 2) },
	} {
		var typed *core.Error
		took, err := f()
		if took != 0 || !errors.As(err, &typed) || typed.Backend != "barewebgpu" || typed.Call == "" || typed.Code == 0 {
			t.Errorf("%s: %v, error %#v", name, took, err)
		}
	}
}
