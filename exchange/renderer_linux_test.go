//go:build linux && cgo && cuda && vulkan

package exchange_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/backends/vulkan"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// newRenderer makes what a renderer has: a VkBuffer that it draws, on its VkDevice. dlx has opened a device over that.
func newRenderer(t *testing.T, n int64, export core.HandleType) (c *crossing, picture *core.Tensor, b vulkan.Buffer, wrapped core.Device) {
	t.Helper()
	c = newCrossing(t)
	picture = numbered(t, c.vulkan, core.AllocOptions{Export: export}, 2, n)
	t.Cleanup(func() { _ = picture.Close() })
	b, offset, err := vulkan.BufferOf(picture)
	if err != nil {
		t.Fatal(err)
	}
	if export != 0 && offset != 0 {
		t.Fatalf("the tensor begins at byte %d", offset)
	}
	wrapped, err = vulkan.Wrap(t.Context(), vulkan.Handles{
		Instance: b.Instance, PhysicalDevice: b.PhysicalDevice, Device: b.Device, Queue: b.Queue, Family: int(b.QueueFamily),
		Extensions: []string{"VK_KHR_external_memory_fd", "VK_EXT_external_memory_host"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := wrapped.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, picture, b, wrapped
}

// A VkBuffer of a renderer goes where it can go without a copy, and a plan knows where that is.
func TestMovesOfARenderersVkBuffer(t *testing.T) {
	const n = 1024
	c, picture, all, wrapped := newRenderer(t, n, core.HandleOpaqueFD)
	host, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	destinations := []core.Device{c.cuda, c.vulkan, host}
	for _, exported := range []bool{true, false} {
		for _, mapped := range []bool{true, false} {
			b := all
			if !exported {
				b.ExportTypes = 0
			}
			if !mapped {
				b.Mapped = 0
			}
			for _, d := range destinations {
				t.Run(fmt.Sprintf("exported=%t/mapped=%t/%v", exported, mapped, d.ID()), func(t *testing.T) {
					x, err := vulkan.ImportBuffer(wrapped, b, core.Spec{DType: core.TypeInt32, Shape: []int64{2, n}}, nil)
					if err != nil {
						t.Fatal(err)
					}
					defer x.Close()
					plan, err := exchange.Plan(x, d, exchange.Options{})
					if err != nil {
						t.Fatal(err)
					}
					y, report := to(t, x, d, exchange.Options{})
					defer y.Close()
					if plan.Mechanism != report.Mechanism || !slices.Equal(plan.Steps(), report.Steps()) {
						t.Errorf("planned: %v\nmoved: %v", plan, report)
					}
					shared := exported
					if d == host {
						shared = mapped
					}
					if shared && (report.Mechanism != exchange.Map || report.BytesCopied != 0) {
						t.Errorf("it is copied: %v", report)
					}
					values := make([]int32, 2*n)
					for i := range values {
						values[i] = int32(i)
					}
					if !slices.Equal(read(t, d, y), values) {
						t.Error("the bytes are others")
					}
					if !shared {
						return
					}
					slices.Reverse(values)
					write(t, d, y, values)
					if !slices.Equal(read(t, c.vulkan, picture), values) {
						t.Error("the renderer does not see what was written")
					}
					slices.Reverse(values)
					write(t, c.vulkan, picture, values)
				})
			}
		}
	}
}

// A VkBuffer that comes as a tensor of DLPack, which no device owns, goes to CUDA by way of the device over its VkDevice.
func TestMovesOfADescribedVkBuffer(t *testing.T) {
	c, picture, _, wrapped := newRenderer(t, 1024, core.HandleOpaqueFD)
	buffer, err := picture.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := core.Wrap(core.Memory{ID: wrapped.ID(), Handle: buffer.Memory().Handle, Size: core.UnknownSize}, core.Spec{DType: core.TypeInt32, Shape: []int64{2, 1024}})
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	x, report := to(t, foreign, wrapped, exchange.Options{Copy: exchange.Never})
	defer x.Close()
	if report.Mechanism != exchange.Alias {
		t.Errorf("imported by %v", report)
	}
	y, report := to(t, x, c.cuda, exchange.Options{Copy: exchange.Never})
	defer y.Close()
	if report.Mechanism != exchange.Map || report.BytesCopied != 0 {
		t.Errorf("moved by %v", report)
	}
	if !slices.Equal(read(t, c.cuda, y), read(t, c.vulkan, picture)) {
		t.Error("the bytes are others")
	}
}

// Only the driver can tell that memory was not allocated as the renderer says.
func TestARendererThatIsWrongAboutItsMemory(t *testing.T) {
	c, picture, b, wrapped := newRenderer(t, 1024, 0)
	b.ExportTypes = 1
	x, err := vulkan.ImportBuffer(wrapped, b, core.Spec{DType: core.TypeInt32, Shape: []int64{2, 1024}, Offset: picture.Offset()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y, report := to(t, x, c.cuda, exchange.Options{})
	defer y.Close()
	if report.BytesCopied == 0 || !strings.Contains(report.String(), "VkExportMemoryAllocateInfo") {
		t.Errorf("moved by %v", report)
	}
	if !slices.Equal(read(t, c.cuda, y), read(t, c.vulkan, picture)) {
		t.Error("the bytes are others")
	}
}
