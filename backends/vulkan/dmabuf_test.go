//go:build vulkan && linux && cgo

package vulkan

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// Mesa's lavapipe allocates memory for export as a dma-buf that it does not support, and gives a memfd for it.
func TestADriverThatGivesAMemfdAsADMABuf(t *testing.T) {
	alsoHarmless = []string{"VK_ERROR_OUT_OF_DEVICE_MEMORY"} // Mesa 25 says so when it refuses memory for a dma-buf
	d := opened(t)
	alsoHarmless = nil
	if strings.HasPrefix(d.Properties().Driver, "SwiftShader") {
		t.Skip("SwiftShader gives no descriptor for a handle type that it does not support")
	}
	if len(inner(d).exportTypes) == 0 || inner(d).exportTypes[0] != core.HandleOpaqueFD || len(inner(d).exportTypes) > 1 {
		t.Skip("the driver exports dma-bufs")
	}
	options := core.AllocOptions{Export: core.HandleDMABuf}
	if _, err := d.Alloc(t.Context(), 4096, options); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("memory for export as a dma-buf: error %v, want %q", err, core.ErrNotSupported)
	}
	inner(d).exportTypes = append(d.(core.MemoryExporter).ExportTypes(), core.HandleDMABuf) // as if it said that it does
	m, err := d.Alloc(t.Context(), 4096, options)
	if err != nil {
		t.Skipf("the driver refuses it: %v", err)
	}
	x := keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{4096}}))
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	before := openFiles(t)
	out, err := d.(core.MemoryExporter).ExportMemory(b, core.HandleDMABuf)
	if !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), "memfd") || out.Handle != nil {
		t.Errorf("export: %v, error %v, want %q", out.Handle, err, core.ErrNotSupported)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors are open, and %d were before", after, before)
	}
}

// openFiles counts what the process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
