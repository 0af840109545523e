//go:build rocm && linux && cgo

package rocm

import (
	"bytes"
	"os"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/cudalike/cudaliketest"
	"github.com/dlx-go/dlx/backends/rocm/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// mapped has another library map memory for handles of a type, which is unmapped when the test ends.
func mapped(t *testing.T, d core.Device, of core.HandleType) uintptr {
	t.Helper()
	c := contextOf(d)
	unit, s := driver.Driver.Granularity(0, of, true)
	ok(t, s)
	m, s := c.NewMapped(unit, of, 0)
	ok(t, s)
	t.Cleanup(func() { ok(t, c.CloseMapped(m)) })
	return m.Address
}

// What another library has mapped is exported as a dma-buf by its address, and as a descriptor since 7.15: older libraries do
// not count the handle that they return, and crash for memory that is not mapped.
func TestMemoryThatAnotherLibraryHasMappedIsExported(t *testing.T) {
	sim := kit.Simulator(t)
	minor := os.Getenv("DLX_GPUSIM_HIP_MINOR")
	if minor == "" {
		for _, minor := range []string{"14", "15"} {
			t.Run("7."+minor, coretest.Child(t, t.Name(), "DLX_GPUSIM_HIP_VERSION=7", "DLX_GPUSIM_HIP_MINOR="+minor))
		}
	}
	d := opened(t)
	const size, offset = 5000, 4099
	tensor := func(p uintptr) (*core.Tensor, *core.Buffer) {
		m, err := d.(core.PointerImporter).ImportPointer(p, size, nil)
		if err != nil {
			t.Fatal(err)
		}
		x := coretest.Keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{size}}))
		b, err := x.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		return x, b
	}
	opaque, dmaBuf := mapped(t, d, core.HandleOpaqueFD), mapped(t, d, core.HandleDMABuf)
	plain := allocate(t, size, contextOf(d).Alloc, contextOf(d).Free)
	live, before := sim.Live(), coretest.Descriptors()

	x, b := tensor(dmaBuf + offset)
	coretest.Put(t, d, x, coretest.Pattern(size, 1))
	m, err := d.(core.MemoryExporter).ExportMemory(b, core.HandleDMABuf)
	if err != nil {
		t.Fatal(err)
	}
	if m.Offset != offset || m.Length != size {
		t.Errorf("%+v: want %d bytes at %d", m, size, offset)
	}
	if got := cudaliketest.ViewFrom(t, coretest.FD(t, m.Handle), 0, m.Size)[offset : offset+size]; !bytes.Equal(got, coretest.Pattern(size, 1)) {
		t.Error("the dma-buf has other bytes")
	}
	_ = m.Close()

	x, b = tensor(opaque + offset)
	coretest.Put(t, d, x, coretest.Pattern(size, 2))
	m, err = d.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD)
	if minor != "15" {
		coretest.WantError(t, err, core.ErrNotSupported, "a library that does not count the handle")
	} else {
		if err != nil {
			t.Fatal(err)
		}
		memory, err := d.(core.MemoryImporter).ImportMemory(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		y, err := core.Wrap(memory, core.Spec{DType: core.TypeUint8, Shape: []int64{size}})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(coretest.Get(t, d, y), coretest.Pattern(size, 2)) {
			t.Error("the import has other bytes")
		}
		_ = y.Close()
		sim.Fail("hipMemRetainAllocationHandle", 1, int(driver.Unknown))
		_, err = d.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD)
		coretest.WantError(t, err, core.ErrInvalid, "hipMemRetainAllocationHandle fails")
	}
	for _, of := range []core.HandleType{core.HandleOpaqueFD, core.HandleDMABuf} {
		_, b = tensor(plain)
		_, err = d.(core.MemoryExporter).ExportMemory(b, of)
		coretest.WantError(t, err, core.ErrInvalid, "memory of hipMalloc")
	}
	if now := coretest.Descriptors(); now != before {
		t.Errorf("%d descriptors are open, %d were", now, before)
	}
	cudaliketest.WantLive(t, sim, live, "vmm_handles", "reservations", "mappings")
}
