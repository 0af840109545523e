//go:build webgpu && linux && cgo

package webgpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/backends/webgpu/internal/faults"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// made makes a buffer of the device as a program would. The caller releases it.
func made(tb testing.TB, d core.Device, usage wgpu.Usage, size int64) wgpu.Handle {
	tb.Helper()
	native, err := DeviceOf(d)
	if err != nil {
		tb.Fatal(err)
	}
	return wgpu.BufferOf(native, uintptr(usage), size, false)
}

func TestConformanceWithBuffersOfTheProgram(t *testing.T) {
	backendtest.Run(t, open, backendtest.Options{Variant: 1, Variants: 3, Pointer: func(tb testing.TB, d core.Device, size int64) uintptr {
		b := made(tb, d, wgpu.Memory, (size+3)&^3)
		tb.Cleanup(func() { wgpu.ReleaseBuffer(b) })
		return uintptr(b)
	}})
}

func TestImportPointerRefuses(t *testing.T) {
	closeDevice(t, open(t))
	installFaults()
	d, other := open(t), open(t)
	defer closeDevice(t, d)
	defer closeDevice(t, other)
	sound, readback, destroyed, foreign := made(t, d, wgpu.Memory, 100), made(t, d, wgpu.Readback, 100), made(t, d, wgpu.Memory, 100), made(t, other, wgpu.Memory, 100)
	native, err := DeviceOf(d)
	if err != nil {
		t.Fatal(err)
	}
	mapped := wgpu.BufferOf(native, uintptr(wgpu.Memory), 100, true)
	for _, b := range []wgpu.Handle{sound, readback, destroyed, foreign, mapped} {
		defer wgpu.ReleaseBuffer(b)
	}
	faults.DestroyBuffer(uintptr(destroyed))
	for _, c := range []struct {
		rule   string
		buffer wgpu.Handle
		size   int64
		says   string
	}{
		{"no buffer", 0, 4, "nil"},
		{"a negative size", sound, -1, "-1 bytes"},
		{"more than the buffer has", sound, 101, "has 100"},
		{"another usage", readback, 100, "COPY_SRC, COPY_DST and STORAGE"},
		{"a buffer that is mapped", mapped, 100, "mapped"},
		{"a buffer that was destroyed", destroyed, 100, "destroyed"},
		{"a buffer of another device", foreign, 100, "evice"},
	} {
		freed := 0
		m, err := d.(core.PointerImporter).ImportPointer(uintptr(c.buffer), c.size, core.FreeFunc(func() { freed++ }))
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), c.says) || freed != 0 {
			t.Errorf("%s: error %v, want one that says %q; the owner was freed %d times", c.rule, err, c.says, freed)
		}
		if err == nil {
			m.Free()
		}
	}
}

func TestATensorKeepsABufferThatTheProgramReleases(t *testing.T) {
	closeDevice(t, open(t))
	installFaults()
	d := open(t)
	defer closeDevice(t, d)
	before := faults.Objects()
	b := made(t, d, wgpu.Memory, 12)
	freed := 0
	m, err := d.(core.PointerImporter).ImportPointer(uintptr(b), 10, core.FreeFunc(func() { freed++ }))
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.(core.PointerImporter).ImportPointer(uintptr(b), 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	wgpu.ReleaseBuffer(b)
	again.Free()
	tensor, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{10}})
	if err != nil {
		t.Fatal(err)
	}
	host := coretest.Keep(t)(core.FromSlice([]uint8{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}))
	back := coretest.Keep(t)(core.FromSlice(make([]uint8, 10)))
	if err := errors.Join(d.Copy(t.Context(), nil, tensor, host), d.Copy(t.Context(), nil, back, tensor)); err != nil {
		t.Fatal(err)
	}
	got, err := core.Values[uint8](back)
	if err != nil || len(got) != 10 || got[0] != 1 || got[9] != 10 {
		t.Errorf("the buffer has %v, error %v", got, err)
	}
	if freed != 0 {
		t.Error("the owner was freed while the tensor was open")
	}
	tensor.Close()
	closeDevice(t, d)
	if freed != 1 {
		t.Errorf("the owner was freed %d times", freed)
	}
	if now := faults.Objects(); now != before-2 { // the device and its queue
		t.Errorf("%d objects of the library are left", now-before+2)
	}
}
