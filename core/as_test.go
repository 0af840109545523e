package core_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// declaring is a device that declares other capabilities than the one inside.
type declaring struct {
	*coretest.Device
	capabilities core.Capabilities
}

func (d declaring) Properties() core.Properties {
	p := d.Device.Properties()
	p.Capabilities = d.capabilities
	return p
}

func openSimulated(t *testing.T) *coretest.Device {
	t.Helper()
	d, err := coretest.NewBackend(coretest.Options{}).Open(t.Context(), core.DeviceID{Type: core.DeviceExt})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d.(*coretest.Device)
}

func TestTheCapabilityDecides(t *testing.T) {
	d := openSimulated(t)
	if _, ok := core.As[core.HostMapper](d); !ok {
		t.Errorf("a device that declares %v is no HostMapper", core.CapMapHost)
	}
	if _, ok := core.As[core.HostViewer](d); ok {
		t.Errorf("a device that does not declare %v is a HostViewer", core.CapHostView)
	}
	none := declaring{Device: d}
	if m, ok := core.As[core.HostMapper](none); ok || m != nil {
		t.Errorf("a device without capabilities is the HostMapper %v", m)
	}
	if _, ok := core.As[backendkit.CloseNotifier](none); !ok {
		t.Error("a device that has close hooks is no CloseNotifier")
	}
	if _, ok := core.As[core.HostMapper](nil); ok {
		t.Error("a nil device is a HostMapper")
	}
	if got := backendkit.CapabilityOf[core.PeerCopier](); got != core.CapPeer {
		t.Errorf("the capability of a PeerCopier is %v", got)
	}
	if got := backendkit.CapabilityOf[core.Device](); got != 0 {
		t.Errorf("the capability of a Device is %v", got)
	}
}

func TestCheckCapabilities(t *testing.T) {
	d := openSimulated(t)
	if err := backendkit.CheckCapabilities(d); err != nil {
		t.Error(err)
	}
	if err := backendkit.CheckCapabilities(nil); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a nil device: %v", err)
	}
	err := backendkit.CheckCapabilities(declaring{d, core.CapExportSemaphores})
	if !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), "SemaphoreExporter") {
		t.Errorf("a device that declares what it does not implement: %v", err)
	}
}

func TestRequireNamesWhatIsMissing(t *testing.T) {
	p := core.Properties{ID: core.DeviceID{Type: core.DeviceVulkan}}
	p.AddFeature("map_host", core.CapMapHost, false, "the driver does not have %s", "VK_some")
	p.AddFeature("host_view", core.CapHostView, true, "")
	if err := p.Require(core.CapHostView, "HostView"); err != nil {
		t.Error(err)
	}
	err := p.Require(core.CapMapHost|core.CapHostView, "MapHost")
	if want := "vulkan: MapHost: not supported: vulkan:0 lacks the capability map_host: the driver does not have VK_some"; err == nil || err.Error() != want || !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := p.Require(core.CapPeer, "CopyPeer"); err == nil || !strings.Contains(err.Error(), "lacks the capability peer") {
		t.Errorf("without a feature: %v", err)
	}
}
