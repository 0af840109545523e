package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/buildtag"
)

func TestDevicesListsWhatIsThereAndWhyTheRestIsNot(t *testing.T) {
	r := decode[devicesResult](t, dlx(t, "devices", "--json"), "devices")
	if want := 2 + len(all.Tags()); len(r.Backends) != want { // cpu and ext_dev have no tag
		t.Fatalf("%d backends, want %d, built in or not", len(r.Backends), want)
	}
	host, simulated, missing := r.Backends[0], r.Backends[1], r.Backends[2]
	if !host.Available || len(host.Devices) != 1 || host.Devices[0].ID != core.CPU || !slices.Contains(host.Devices[0].Capabilities, "host_memory") {
		t.Errorf("cpu: %+v", host)
	}
	if len(simulated.Devices) != 2 || simulated.Devices[1].ID.String() != "ext_dev:1" {
		t.Errorf("ext_dev: %+v", simulated)
	}
	if missing.Available || missing.Reason != whyDriverless || missing.Devices == nil || len(missing.Devices) != 0 {
		t.Errorf("vulkan: %+v", missing)
	}

	text := dlx(t, "devices").stdout
	for _, want := range []string{"BACKEND cpu", "DEVICE cpu", "256 B", "import_pointer", "ext_dev:1", "BACKEND vulkan", "not available: " + whyDriverless} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// twoCards is a backend with two devices, of which the second lacks a feature.
type twoCards struct{ driverless }

func (twoCards) Probe(context.Context) core.Probe {
	return core.Probe{Available: true, Version: "1.0", Features: features(true)}
}

func (twoCards) Devices(context.Context) ([]core.Properties, error) {
	return []core.Properties{
		{ID: core.DeviceID{Type: core.DeviceVulkan}, Name: "big", PCI: "0000:01:00.0", Alignment: 256, Features: features(true)},
		{ID: core.DeviceID{Type: core.DeviceVulkan, Index: 1}, Name: "small", Alignment: 256, Features: features(false)},
	}, nil
}

// features are one that every device has, one that none has, and one that some have.
func features(some bool) []core.Feature {
	f := core.Feature{Name: "map_host", Available: some}
	if !some {
		f.Reason = "too small"
	}
	return []core.Feature{{Name: "managed", Available: true}, {Name: "import_fd", Reason: "old driver"}, f}
}

func TestADeviceIsListedWithTheFeaturesThatDifferFromItsBackends(t *testing.T) {
	const want = `BACKEND vulkan  available 1.0
    managed     available
    import_fd   not available: old driver
    map_host    available

  DEVICE vulkan:0  big
    pci            0000:01:00.0
    alignment      256 B

  DEVICE vulkan:1  small
    alignment      256 B
    map_host       not available: too small
`
	if got := dlxWith(t, t.Context(), []core.Backend{twoCards{}}, "devices").stdout; !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r := decode[devicesResult](t, dlxWith(t, t.Context(), []core.Backend{twoCards{}}, "devices", "--json"), "devices")
	if b := r.Backends[0]; !slices.Equal(b.Features, features(true)) || !slices.Equal(b.Devices[0].Features, features(true)) ||
		!slices.Equal(b.Devices[1].Features, features(false)) {
		t.Errorf("the JSON has not all features: %+v", b)
	}
}

// oneCard is the first of twoCards under another API.
type oneCard struct{ driverless }

func (oneCard) Name() string { return "opencl" }

func (oneCard) Probe(context.Context) core.Probe { return core.Probe{Available: true} }

func (oneCard) Devices(context.Context) ([]core.Properties, error) {
	return []core.Properties{{ID: core.DeviceID{Type: core.DeviceOpenCL}, PCI: "0000:01:00.0"}}, nil
}

func TestADeviceNamesItselfUnderOtherAPIs(t *testing.T) {
	backends := []core.Backend{twoCards{}, oneCard{}}
	r := decode[devicesResult](t, dlxWith(t, t.Context(), backends, "devices", "--json"), "devices")
	if got := fmt.Sprint(r.Backends[0].Devices[0].SameHardware, r.Backends[0].Devices[1].SameHardware, r.Backends[1].Devices[0].SameHardware); got != "[opencl:0] [] [vulkan:0]" {
		t.Errorf("same hardware: %s", got)
	}
	if text := dlxWith(t, t.Context(), backends, "devices").stdout; strings.Count(text, "same hardware  opencl:0") != 1 {
		t.Errorf("no row names the other API:\n%s", text)
	}
}

func TestABackendThatWasNotBuiltInIsListedWithItsTag(t *testing.T) {
	r := decode[devicesResult](t, dlxWith(t, t.Context(), nil, "devices", "--json"), "devices")
	var names []string
	for _, b := range r.Backends {
		names = append(names, b.Name)
		if b.BuiltIn || b.Available || b.Devices == nil || len(b.Devices) != 0 || !strings.Contains(b.Reason, "-tags "+b.Name) {
			t.Errorf("%+v", b)
		}
	}
	if want := all.Tags(); !slices.Equal(names, want) {
		t.Errorf("a program without backends lacks %q, want %q", names, want)
	}

	text := dlx(t, "devices").stdout
	if !strings.Contains(text, "BACKEND gl  "+buildtag.Missing("gl")) || strings.Contains(text, "-tags vulkan") {
		t.Errorf("with vulkan and without gl:\n%s", text)
	}
}

func TestDevicesNamesTagsThatDlxDoesNotKnow(t *testing.T) {
	var text strings.Builder
	devicesResult{Unknown: []string{"vulcan"}}.writeText(&text)
	if want := "\nunknown tags\tvulcan (dlx has the tags " + strings.Join(all.Tags(), ", ") + ", ucx)\n"; !strings.HasSuffix(text.String(), want) {
		t.Errorf("%q, want %q", text.String(), want)
	}
}

// unlisted is a backend with a driver that does not list its devices.
type unlisted struct{ driverless }

func (unlisted) Probe(context.Context) core.Probe { return core.Probe{Available: true} }

func TestABackendThatCannotListItsDevicesSaysWhy(t *testing.T) {
	r := decode[devicesResult](t, dlxWith(t, t.Context(), []core.Backend{unlisted{}}, "devices", "--json"), "devices")
	if b := r.Backends[0]; !b.Available || !strings.Contains(b.Error, whyDriverless) || len(b.Devices) != 0 {
		t.Errorf("%+v", b)
	}
}
