//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"os"
	"testing"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// dmaBufVariable says whether the simulated devices export dma-bufs.
const dmaBufVariable = "DLX_GPUSIM_DMA_BUF"

// exportedDMABuf allocates n bytes and exports them. The caller must close the handle.
func exportedDMABuf(t testing.TB, d core.Device, n int64) (*core.Tensor, core.ExternalMemory) {
	t.Helper()
	x := row(t, d, n, core.AllocOptions{Export: core.HandleDMABuf})
	m, err := d.(core.MemoryExporter).ExportMemory(buffer(t, x), core.HandleDMABuf)
	if err != nil {
		t.Fatal(err)
	}
	return x, m
}

// Another device, such as a network card, maps the dma-buf. Here the host does.
func TestADMABufIsTheMemoryOfTheTensor(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	live, before := sim.Live(), descriptors()
	x, m := exportedDMABuf(t, d, 5000)
	if m.Handle.Type() != core.HandleDMABuf || m.Offset != 0 || m.Length != 5000 || m.Size%(64<<10) != 0 || m.DeviceUUID != d.Properties().UUID {
		t.Errorf("%+v: want a dma-buf of 5000 bytes at the start of whole pages of the device", m)
	}
	if b := m.Backing(); b == nil {
		t.Error("the dma-buf is not identified")
	}
	there, err := m.Duplicate()
	if err != nil {
		t.Fatal(err)
	}
	whole := viewFrom(t, coretest.FD(t, there.Handle), 0, m.Size)
	put(t, d, x, pattern(5000, 1))
	if !bytes.Equal(whole[:5000], pattern(5000, 1)) {
		t.Error("the other device sees other bytes than CUDA wrote")
	}
	copy(whole, pattern(5000, 2))
	if !bytes.Equal(get(t, d, x), pattern(5000, 2)) {
		t.Error("CUDA sees other bytes than the other device wrote")
	}

	// CUDA does not import it, and the handle stays the caller's.
	_, err = d.(core.MemoryImporter).ImportMemory(t.Context(), m)
	wantError(t, err, core.ErrNotSupported, "the import of a dma-buf")
	if !isOpen(coretest.FD(t, m.Handle)) {
		t.Error("the import that failed closed the descriptor")
	}
	_, err = d.(core.MemoryExporter).ExportMemory(buffer(t, x), core.HandleOpaqueFD)
	wantError(t, err, core.ErrInvalid, "the export of the same memory as an opaque descriptor")
	_ = m.Close()
	_ = x.Close()
	if !bytes.Equal(whole[:5000], pattern(5000, 2)) {
		t.Error("the memory did not outlive the tensor while a descriptor of it is open")
	}
	_ = there.Close()
	if now := descriptors(); now != before {
		t.Errorf("%d descriptors are open, %d were", now, before)
	}
	wantLive(t, sim, live, sharedKinds...)
}

func TestAnExportAsADMABufThatFailsLeavesNothing(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	x, m := exportedDMABuf(t, d, 100)
	_ = m.Close()
	live, before := sim.Live(), descriptors()
	sim.Fail("cuMemGetHandleForAddressRange", 1, int(driver.Unknown))
	_, err := d.(core.MemoryExporter).ExportMemory(buffer(t, x), core.HandleDMABuf)
	wantError(t, err, core.ErrInvalid, "an export that the driver refuses")
	for _, call := range []string{"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"} {
		sim.Fail(call, 1, int(driver.Unknown))
		_, err := d.Alloc(t.Context(), 100, core.AllocOptions{Export: core.HandleDMABuf})
		wantError(t, err, core.ErrInvalid, "Alloc for a dma-buf without "+call)
	}
	if now := descriptors(); now != before {
		t.Errorf("%d descriptors are open, %d were", now, before)
	}
	wantLive(t, sim, live, sharedKinds...)
}

func TestADeviceWithoutDMABufsSaysSo(t *testing.T) {
	simulator(t)
	if os.Getenv(dmaBufVariable) == "" {
		coretest.Child(t, t.Name(), dmaBufVariable+"=0")(t)
		return
	}
	d := opened(t)
	for _, f := range d.Properties().Features {
		if f.Name == "export_dma_buf" && (f.Available || f.Reason == "") {
			t.Errorf("%+v: want a reason", f)
		}
	}
	_, err := d.Alloc(t.Context(), 100, core.AllocOptions{Export: core.HandleDMABuf})
	wantError(t, err, core.ErrNotSupported, "Alloc for a dma-buf")
}
