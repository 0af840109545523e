//go:build webgpu && linux && cgo

package webgpu

import (
	"errors"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/webgpu/internal/faults"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
)

// A buffer goes back to the pool when no memory is on it, neither its own nor an imported one, and the pool hands it out for its size
// only.
func TestABufferIsReusedWhenAllMemoryOnItIsFreed(t *testing.T) {
	d := openFaulty(t)
	alloc := func(size int64) core.Memory {
		t.Helper()
		m, err := d.Alloc(t.Context(), size, core.AllocOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	own := alloc(997)
	imported, err := d.ImportPointer(own.Handle, own.Size, nil)
	if err != nil {
		t.Fatal(err)
	}
	own.Free()
	other := alloc(997)
	if other.Handle == own.Handle {
		t.Error("the buffer was handed out while imported memory on it is open")
	}
	objects := faults.Objects()
	imported.Free()
	if now := faults.Objects(); now != objects-1 {
		t.Errorf("%d references to objects of the library, want %d: only that of the imported memory is gone", now, objects-1)
	}
	larger := alloc(1001)
	if larger.Handle == own.Handle {
		t.Error("a buffer of 1000 bytes was handed out for 1001")
	}
	again := alloc(998)
	if again.Handle != own.Handle {
		t.Error("the freed buffer of 1000 bytes was not handed out for 998")
	}
	for _, m := range []core.Memory{other, larger, again} {
		m.Free()
	}
	objects = faults.Objects()
	d.TrimPool()
	if now := faults.Objects(); now != objects-3 {
		t.Errorf("%d references to objects of the library after TrimPool, want %d", now, objects-3)
	}
}

// Buffers that are kept for copies do not keep memory from a tensor.
func TestAnAllocationTakesTheMemoryOfSpareBuffers(t *testing.T) {
	d := openFaulty(t)
	b, err := d.spares.take(d, wgpu.Memory, 100)
	if err != nil {
		t.Fatal(err)
	}
	d.spares.giveBack(b)
	for _, want := range []error{nil, core.ErrOutOfMemory} { // there is none the second time
		faults.Arm(slices.Index(faults.Calls(), "wgpuDeviceCreateBuffer"), 1, true)
		m, err := d.Alloc(t.Context(), 200, core.AllocOptions{})
		if err == nil {
			defer m.Free()
		}
		if !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
	}
}

// TrimPool keeps no memory, that of copies included.
func TestTrimPoolReleasesSpareBuffers(t *testing.T) {
	d := openFaulty(t)
	objects := faults.Objects()
	b, err := d.spares.take(d, wgpu.Memory, 100)
	if err != nil {
		t.Fatal(err)
	}
	d.spares.giveBack(b)
	d.TrimPool()
	if now := faults.Objects(); now != objects {
		t.Errorf("%d references to objects of the library after TrimPool, want %d", now, objects)
	}
}

// If the host cannot fill a staging buffer, it is unmapped and kept for the next copy.
func TestAStagingBufferThatIsNotFilledIsKept(t *testing.T) {
	d := openFaulty(t)
	if _, err := d.fill(100, func(uintptr) error { return core.ErrInvalid }); !errors.Is(err, core.ErrInvalid) {
		t.Fatalf("error %v, want that of the function", err)
	}
	objects := faults.Objects()
	b, err := d.fill(100, func(uintptr) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if now := faults.Objects(); now != objects {
		t.Errorf("%d references to objects of the library, want %d: there is a free staging buffer", now, objects)
	}
	d.spares.giveBack(b)
}
