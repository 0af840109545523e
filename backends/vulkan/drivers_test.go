//go:build vulkan && linux && cgo

package vulkan

import (
	"testing"

	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// The drivers for the CPU offer different things. A test that needs more is skipped only with the driver that lacks it.
func TestWhatTheDriversForTheCPUOffer(t *testing.T) {
	const both = core.CapExportMemory | core.CapImportMemory | core.CapHostView | core.CapSemaphores
	d := opened(t)
	p := d.Properties()
	var has, lacks core.Capabilities
	switch inner(d).physical.DriverID {
	case driver.Llvmpipe:
		has, lacks = both|core.CapMapHost, core.CapExportSemaphores|core.CapImportSemaphores
	case driver.SwiftShader:
		has, lacks = both, core.CapMapHost
	default:
		t.Skipf("%s is no driver for the CPU that is known", p.Driver)
	}
	if p.Capabilities&has != has || p.Capabilities&lacks != 0 {
		t.Errorf("%s has the capabilities %v, want %v, and not %v", p.Driver, p.Capabilities, has, lacks)
	}
}

// A card has no files for memory: what a descriptor must be depends on the driver, and not on the kind of device.
func TestWhatAnOpaqueDescriptorIsDependsOnTheDriver(t *testing.T) {
	d := inner(opened(t))
	by, id := d.importer(), d.physical.DriverID
	if by.Software != (id == driver.Llvmpipe) || by.Files != (id == driver.SwiftShader) {
		t.Errorf("driver %d: %+v", id, by)
	}
}
