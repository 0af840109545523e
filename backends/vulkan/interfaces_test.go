//go:build vulkan && linux && cgo

package vulkan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// What a device does not declare it refuses, and says why.
func TestADeviceRefusesWhatItDoesNotDeclare(t *testing.T) {
	d := new(device)
	d.Info.AddFeature("map_host", core.CapMapHost, false, "the driver is too old")
	_, mapped := d.MapHost(t.Context(), nil)
	_, exported := d.ExportMemory(nil, core.HandleOpaqueFD)
	_, imported := d.ImportMemory(t.Context(), core.ExternalMemory{})
	ended := d.EndExport(nil)
	_, given := d.ExportSemaphore(nil, core.HandleOpaqueFD)
	_, taken := d.ImportSemaphore(t.Context(), core.ExternalSemaphore{})
	_, timed := d.NewTimedStream(t.Context())
	_, marked := d.Mark(nil)
	for call, err := range map[string]error{"NewTimedStream": timed, "Mark": marked, "MapHost": mapped, "ExportMemory": exported, "EndExport": ended, "ImportMemory": imported, "ExportSemaphore": given, "ImportSemaphore": taken} {
		if !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), call) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if !strings.Contains(mapped.Error(), "the driver is too old") {
		t.Errorf("no reason: %v", mapped)
	}
	if types := slices.Concat(d.ExportTypes(), d.ImportTypes(), d.SemaphoreExportTypes(), d.SemaphoreImportTypes()); len(types) > 0 {
		t.Errorf("it names %v", types)
	}
}

// A driver that has semaphores, but no memory to share, shares neither.
func TestWhatIsSharedIsSharedBothWays(t *testing.T) {
	d := inner(opened(t))
	for _, missing := range []string{"VK_KHR_external_memory_fd", "VK_KHR_external_semaphore_fd", "VK_EXT_external_memory_host"} {
		p := describe(d.physical, options{}, 0, func(extension string) bool { return extension != missing })
		has := p.Capabilities.Has
		if has(core.CapExportMemory) != has(core.CapImportMemory) || has(core.CapExportSemaphores) != has(core.CapImportSemaphores) ||
			has(core.CapExportSemaphores) && !has(core.CapExportMemory) {
			t.Errorf("without %s: %v", missing, p.Capabilities)
		}
		if missing == "VK_KHR_external_memory_fd" && has(core.CapExportMemory) || missing == "VK_EXT_external_memory_host" && has(core.CapMapHost) {
			t.Errorf("without %s: %v", missing, p.Capabilities)
		}
	}
}
