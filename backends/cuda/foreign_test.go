//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

const posixFD = 1 // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

// mappedBy has another library map memory for a kind of handles to n places, one by one.
func mappedBy(t *testing.T, other *gpusimtest.Driver, p properties, n uint64) uintptr {
	t.Helper()
	p.kind, p.at = 1, location{onDevice, 0}
	return segmentOf(t, other, p, n, n)
}

// ofPointer wraps bytes of another library as a tensor of the device.
func ofPointer(t *testing.T, d core.Device, p uintptr, size int64) *core.Tensor {
	t.Helper()
	m, err := d.(core.PointerImporter).ImportPointer(p, size, nil)
	if err != nil {
		t.Fatal(err)
	}
	return keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{size}}))
}

// A tensor of PyTorch lies in memory that PyTorch has mapped, for handles that are descriptors. The handle of that memory is
// retained for the export, and released.
func TestMemoryThatAnotherLibraryHasMappedIsExported(t *testing.T) {
	sim := simulator(t)
	other := gpusimtest.Start(t)
	d := opened(t)
	opaque := mappedBy(t, other, properties{handles: posixFD}, 2)
	rdma := mappedBy(t, other, properties{flags: [4]byte{1: 1}}, 2)
	live, before := sim.Live(), descriptors()
	for _, c := range []struct {
		rule         string
		of           core.HandleType
		start        uintptr
		offset, size int64
	}{
		{"all of an allocation", core.HandleOpaqueFD, opaque, 0, unit},
		{"a part", core.HandleOpaqueFD, opaque, 4096, many},
		{"a part at an odd offset", core.HandleOpaqueFD, opaque, unit - 333, 333},
		{"a part of the second allocation", core.HandleOpaqueFD, opaque + unit, 77, many},
		{"a part, as a dma-buf", core.HandleDMABuf, rdma + unit, 77, many},
	} {
		t.Run(c.rule, func(t *testing.T) {
			x := ofPointer(t, d, c.start+uintptr(c.offset), c.size)
			b := buffer(t, x)
			if err := d.(backendkit.ExportTrier).TryExport(b, c.of); err != nil {
				t.Fatal(err)
			}
			m, err := d.(core.MemoryExporter).ExportMemory(b, c.of)
			if err != nil {
				t.Fatal(err)
			}
			if m.Size != unit || m.Offset != c.offset || m.Length != c.size || m.DeviceUUID != d.Properties().UUID || m.MemoryType != backendkit.NoMemoryType {
				t.Errorf("%+v: want %d bytes at %d of %d", m, c.size, c.offset, unit)
			}
			put(t, d, x, pattern(int(c.size), 1))
			if c.of == core.HandleOpaqueFD {
				y := imported(t, d, m)
				if !bytes.Equal(get(t, d, y), pattern(int(c.size), 1)) {
					t.Error("the import has other bytes")
				}
				_ = y.Close()
			} else if got := viewFrom(t, coretest.FD(t, m.Handle), 0, m.Size)[c.offset : c.offset+c.size]; !bytes.Equal(got, pattern(int(c.size), 1)) {
				t.Error("the dma-buf has other bytes")
			}
			if err := d.(core.MemoryExporter).EndExport(b); err != nil {
				t.Error(err)
			}
			_ = m.Close()
			_ = x.Close()
			if now := descriptors(); now != before {
				t.Errorf("%d descriptors are open, %d were", now, before)
			}
			wantLive(t, sim, live, sharedKinds...)
		})
	}
}

// What cannot be exported says so, when it is asked and when it is tried, and nothing stays retained.
func TestMemoryOfAnotherLibraryThatCannotBeExported(t *testing.T) {
	sim := simulator(t)
	other := gpusimtest.Start(t)
	d := opened(t)
	l := libraryOf(t, d)
	mapped, private := mappedBy(t, other, properties{handles: posixFD}, 2), mappedBy(t, other, properties{}, 1)
	mine := row(t, d, many, core.AllocOptions{})
	own, err := mine.Address()
	if err != nil {
		t.Fatal(err)
	}
	live, before := sim.Live(), descriptors()
	for _, c := range []struct {
		rule string
		p    uintptr
		size int64
		of   core.HandleType
		says string
	}{
		{"memory of cuMemAlloc", l.plain(many), many, core.HandleOpaqueFD, "not allocated with AllocOptions.Export"},
		{"pinned memory", l.pinned(many), many, core.HandleOpaqueFD, "not allocated with AllocOptions.Export"},
		{"managed memory", l.managed(many), many, core.HandleOpaqueFD, "not allocated with AllocOptions.Export"},
		{"memory of the device's pool", own, many, core.HandleOpaqueFD, "not allocated with AllocOptions.Export"},
		{"no bytes", mapped, 0, core.HandleOpaqueFD, "has no bytes"},
		{"two allocations", mapped + unit - 100, 101, core.HandleOpaqueFD, "lie in several allocations of another library, of which the first one has 100 "},
		{"memory for no handle", private, many, core.HandleOpaqueFD, "not for handles of the type opaque_fd"},
		{"memory for another handle", mapped, many, core.HandleDMABuf, "not for handles of the type dma_buf"},
		{"an IPC handle", mapped, many, core.HandleIPC, "not allocated with AllocOptions.Export"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			x := ofPointer(t, d, c.p, c.size)
			b := buffer(t, x)
			_, err := d.(core.MemoryExporter).ExportMemory(b, c.of)
			wantError(t, err, core.ErrInvalid, "ExportMemory")
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q does not say %q", err, c.says)
			}
			if asked := d.(backendkit.ExportTrier).TryExport(b, c.of); asked == nil || asked.Error() != err.Error() {
				t.Errorf("TryExport returned %v, and ExportMemory %v", asked, err)
			}
		})
	}
	if err := d.(backendkit.ExportTrier).TryExport(nil, core.HandleOpaqueFD); err == nil {
		t.Error("a nil buffer can be exported")
	}
	sim.Fail("cuMemRetainAllocationHandle", 1, int(driver.Unknown))
	b := buffer(t, ofPointer(t, d, mapped, many))
	_, err = d.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD)
	wantError(t, err, core.ErrInvalid, "cuMemRetainAllocationHandle fails")
	if now := descriptors(); now != before {
		t.Errorf("%d descriptors are open, %d were", now, before)
	}
	wantLive(t, sim, live, sharedKinds...)
}

// A part of memory of dlx that comes back from another library is exported from where it lies.
func TestAPartOfOwnMemoryComesBackAndIsExported(t *testing.T) {
	simulator(t)
	d := opened(t)
	x := row(t, d, many, core.AllocOptions{Export: core.HandleOpaqueFD})
	address, err := x.Address()
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.(core.MemoryExporter).ExportMemory(buffer(t, ofPointer(t, d, address+100, 50)), core.HandleOpaqueFD)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.Offset != 100 || m.Length != 50 {
		t.Errorf("%d bytes at %d, want 50 at 100", m.Length, m.Offset)
	}
}

// foreignLife exports memory that another library has mapped.
func foreignLife(ctx context.Context, t *testing.T, p uintptr) error {
	l := &coretest.Life{Context: ctx}
	if d := l.Device(New().Open(ctx, core.DeviceID{Type: core.DeviceCUDA})); d != nil {
		if x := l.Wrap(d.(core.PointerImporter).ImportPointer(p, many, nil)); x != nil {
			m, err := d.(core.MemoryExporter).ExportMemory(buffer(t, x), core.HandleOpaqueFD)
			l.OK(err)
			_ = m.Close()
		}
	}
	return l.End()
}
