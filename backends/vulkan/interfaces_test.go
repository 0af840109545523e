//go:build vulkan && linux && cgo

package vulkan

import (
	"testing"

	"github.com/dlx-go/dlx/core"
)

// Every device that describe may tell of offers what it declares, and nothing more.
func TestADeviceOffersWhatItDeclares(t *testing.T) {
	const shares = core.CapExportMemory | core.CapImportMemory
	const links = core.CapExportSemaphores | core.CapImportSemaphores
	for _, mapping := range []core.Capabilities{0, core.CapMapHost} {
		for _, sharing := range []core.Capabilities{0, shares, shares | links} {
			d := &device{properties: core.Properties{Capabilities: core.CapHostView | mapping | sharing}}
			outer := d.withInterfaces()
			offered := core.CapHostView
			for capability, offers := range map[core.Capabilities]bool{
				core.CapMapHost:          offers[core.HostMapper](outer),
				core.CapExportMemory:     offers[core.MemoryExporter](outer),
				core.CapImportMemory:     offers[core.MemoryImporter](outer),
				core.CapExportSemaphores: offers[core.SemaphoreExporter](outer),
				core.CapImportSemaphores: offers[core.SemaphoreImporter](outer),
			} {
				if offers {
					offered |= capability
				}
			}
			if declared := d.properties.Capabilities; offered != declared {
				t.Errorf("a device that declares %v offers %v", declared, offered)
			}
			if found, ok := outer.(interface{ inner() *device }); !ok || found.inner() != d {
				t.Errorf("%v: the device is not found behind its interfaces", d.properties.Capabilities)
			}
		}
	}
}

func offers[I any](d core.Device) bool {
	_, ok := d.(I)
	return ok
}

// A driver that has semaphores, but no memory to share, shares neither.
func TestWhatIsSharedIsSharedBothWays(t *testing.T) {
	d := opened(t).(interface{ inner() *device }).inner()
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
