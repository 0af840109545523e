//go:build gl && linux && cgo

package gl

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestProbeAndDevicesAgreeWithTheOpenedDevice(t *testing.T) {
	needDriver(t)
	b := New()
	if b.Name() != "gl" {
		t.Errorf("the name is %q", b.Name())
	}
	list, err := b.Devices(t.Context())
	if err != nil || len(list) == 0 {
		t.Fatalf("Devices: %v, %v", list, err)
	}
	d := opened(t, asItIs)
	p := d.Properties()
	if p.ID != list[0].ID || p.Name != list[0].Name || p.UUID != list[0].UUID || p.Capabilities != list[0].Capabilities {
		t.Errorf("the device has %+v, the list %+v", p, list[0])
	}
	if probe := b.Probe(t.Context()); !probe.Available || probe.Version != p.Driver || len(probe.Features) != len(p.Features) {
		t.Errorf("probe %+v", probe)
	}
	if p.Capabilities.Has(core.CapImportMemory) && (p.UUID == core.UUID{} || p.DriverUUID == core.UUID{}) {
		t.Error("memory can be imported, but there are no UUIDs to match")
	}
	p.Features[0].Name = "changed"
	if d.Properties().Features[0].Name == "changed" {
		t.Error("a caller can change the features of the device")
	}
}

func TestOnlyListedDevicesCanBeOpened(t *testing.T) {
	needDriver(t)
	for _, id := range []core.DeviceID{core.CPU, {Type: core.DeviceGL, Index: -1}, {Type: core.DeviceGL, Index: 1 << 20}} {
		if _, err := New().Open(t.Context(), id); !errors.Is(err, core.ErrDevice) {
			t.Errorf("Open(%v): %v", id, err)
		}
		if _, err := NewContext(id); !errors.Is(err, core.ErrDevice) {
			t.Errorf("NewContext(%v): %v", id, err)
		}
	}
}

func TestAContextThatHasEndedIsRefused(t *testing.T) {
	d := opened(t, asItIs)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	buffer, err := row(t, d, 16, core.AllocOptions{}).Buffer()
	if err != nil {
		t.Fatal(err)
	}
	_, devices := New().Devices(ended)
	_, opened := New().Open(ended, first)
	_, alloc := d.Alloc(ended, 1, core.AllocOptions{})
	_, stream := d.NewStream(ended)
	_, view := d.HostView(ended, buffer)
	_, semaphore := d.NewSemaphore(ended, 0)
	_, memory := d.ImportMemory(ended, core.ExternalMemory{})
	for call, err := range map[string]error{
		"Devices": devices, "Open": opened, "Alloc": alloc, "NewStream": stream, "HostView": view,
		"NewSemaphore": semaphore, "ImportMemory": memory, "Copy": d.Copy(ended, nil, nil, nil),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func TestAClosedDeviceRefusesEverything(t *testing.T) {
	d := openAs(t, asItIs)
	buffer, err := core.FromSlice([]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	defer buffer.Close()
	for range 2 {
		closeDevice(t, d)
	}
	host, err := buffer.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	_, view := d.HostView(t.Context(), host)
	_, semaphore := d.NewSemaphore(t.Context(), 0)
	_, memory := d.ImportMemory(t.Context(), core.ExternalMemory{})
	_, pointer := d.ImportPointer(1, 16, nil)
	for call, err := range map[string]error{
		"HostView": view, "NewSemaphore": semaphore, "ImportMemory": memory, "ImportPointer": pointer,
		"a call that came too late": d.do(t.Context(), "glFinish", func() {}),
	} {
		if !errors.Is(err, core.ErrClosed) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func TestOptionsThatOpenGLLacksAreNotSupported(t *testing.T) {
	d := opened(t, asItIs)
	for _, o := range []core.AllocOptions{{Type: core.DeviceCUDAHost}, {Export: core.HandleOpaqueFD}, {Export: core.HandleMemFD}} {
		if m, err := d.Alloc(t.Context(), 100, o); !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("%+v: %v, %v", o, m, err)
		}
	}
	if _, err := d.NewSemaphore(t.Context(), core.HandleOpaqueFD); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("a semaphore to be exported: %v", err)
	}
}

func TestTheHostViewsOnlyWhatIsMappedAndTheDevices(t *testing.T) {
	d, other := opened(t, asGPU), opened(t, asItIs)
	view := func(d *device, x *core.Tensor) error {
		b, err := x.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		m, err := d.HostView(t.Context(), b)
		if err == nil {
			m.Free()
			m.Free() // the second must not release another reference
		}
		return err
	}
	plain, visible := row(t, d, 100, core.AllocOptions{}), row(t, d, 100, core.AllocOptions{HostVisible: true})
	if err := view(d, visible); err != nil {
		t.Errorf("visible memory: %v", err)
	}
	if err := view(d, plain); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("memory that is not mapped: %v", err)
	}
	if err := view(other, visible); !errors.Is(err, core.ErrDevice) {
		t.Errorf("memory of another device: %v", err)
	}
	if _, err := d.HostView(t.Context(), nil); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("no buffer: %v", err)
	}
	put(t, d, visible, make([]byte, 100))
}
