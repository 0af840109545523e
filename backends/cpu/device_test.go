package cpu

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
)

var ctx = context.Background()

func TestOnlyTheHostCanBeOpened(t *testing.T) {
	for _, id := range []core.DeviceID{{}, {Type: core.DeviceCPU, Index: 1}, {Type: core.DeviceCPU, Index: -1}, {Type: core.DeviceCUDAHost}} {
		if _, err := New().Open(ctx, id); !errors.Is(err, core.ErrDevice) {
			t.Errorf("Open(%v): %v, want %v", id, err, core.ErrDevice)
		}
	}
}

func TestProbeAndDevicesAgreeWithTheOpenedDevice(t *testing.T) {
	b, d := New(), open(t)
	if b.Name() != "cpu" {
		t.Errorf("the name is %q", b.Name())
	}
	probe := b.Probe(ctx)
	list, err := b.Devices(ctx)
	if err != nil || len(list) != 1 {
		t.Fatalf("Devices: %v, %v", list, err)
	}
	p := d.Properties()
	if p.ID != core.CPU || p.ID != d.ID() || p.ID != list[0].ID || p.Alignment != alignment {
		t.Errorf("properties %+v", p)
	}
	if !probe.Available || len(probe.Features) != 1 || p.Features[0] != probe.Features[0] {
		t.Errorf("probe %+v, features of the device %+v", probe, p.Features)
	}
	if shares := p.Capabilities.Has(core.CapExportMemory); shares != probe.Features[0].Available {
		t.Errorf("the device can share memory: %v, but the feature is %+v", shares, probe.Features[0])
	}
	p.Features[0].Name = "changed"
	if d.Properties().Features[0].Name == "changed" {
		t.Error("a caller can change the features of the device")
	}
}

func TestEachOpenedDeviceHasItsOwnPool(t *testing.T) {
	d, other := open(t), open(t)
	m := d.alloc(100)
	if s := other.stats(); s != (core.PoolStats{}) {
		t.Errorf("the other device has %+v", s)
	}
	m.Free()
}

func TestOptionsThatTheHostLacksAreNotSupported(t *testing.T) {
	d := open(t)
	for _, o := range []core.AllocOptions{
		{Type: core.DeviceCUDAHost}, {Type: 99},
		{Export: core.HandleOpaqueFD}, {Export: core.HandleIPC}, {Export: 99},
	} {
		if m, err := d.Alloc(ctx, 100, o); !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("%+v: %v, %v", o, m, err)
		}
	}
	m, err := d.Alloc(ctx, 100, core.AllocOptions{Type: core.DeviceCPU})
	if err != nil {
		t.Fatal(err)
	}
	m.Free()
}

func TestCloseIsRefusedWhileSomethingIsOpen(t *testing.T) {
	d := open(t)
	refused := func(what string) {
		t.Helper()
		if err := d.Close(); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("Close with %s open: %v", what, err)
		}
	}
	m := d.alloc(100)
	refused("memory")
	m.Free()

	m, err := d.Device.(core.PointerImporter).ImportPointer(0x1000, 16, nil)
	if err != nil {
		t.Fatal(err)
	}
	refused("an import")
	m.Free()

	s, err := d.NewStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	refused("a stream")
	for range 2 { // the second must not count as another stream
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	s, err = d.NewStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	refused("another stream")
	_ = s.Close()
}

func TestAClosedDeviceRefusesEverything(t *testing.T) {
	d := open(t)
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	a, b := values(t, []int8{1}), values(t, []int8{2})
	_, alloc := d.Alloc(ctx, 1, core.AllocOptions{})
	_, stream := d.NewStream(ctx)
	_, pointer := d.Device.(core.PointerImporter).ImportPointer(0x1000, 16, nil)
	for call, err := range map[string]error{
		"Alloc": alloc, "NewStream": stream, "ImportPointer": pointer, "Copy": d.Copy(ctx, nil, a, b),
	} {
		if !errors.Is(err, core.ErrClosed) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func TestAContextThatHasEndedIsRefused(t *testing.T) {
	d := open(t)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	a, b := values(t, []int8{1}), values(t, []int8{2})
	_, devices := New().Devices(ended)
	_, opened := New().Open(ended, core.CPU)
	_, alloc := d.Alloc(ended, 1, core.AllocOptions{})
	_, stream := d.NewStream(ended)
	for call, err := range map[string]error{
		"Devices": devices, "Open": opened, "Alloc": alloc, "NewStream": stream, "Copy": d.Copy(ended, nil, a, b),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func TestImportPointer(t *testing.T) {
	importer := open(t).Device.(core.PointerImporter)
	for _, c := range []struct {
		rule string
		p    uintptr
		size int64
		ok   bool
	}{
		{"any address", 1, 16, true},
		{"no bytes, anywhere", 0, 0, true},
		{"the last bytes below the end", ^uintptr(0) - 15, 15, true},
		{"NULL", 0, 1, false},
		{"negative", 0x1000, -1, false},
		{"beyond the end", ^uintptr(0) - 15, 17, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			freed := 0
			m, err := importer.ImportPointer(c.p, c.size, core.FreeFunc(func() { freed++ }))
			if !c.ok {
				if !errors.Is(err, core.ErrInvalid) || freed != 0 {
					t.Errorf("%v; the owner was freed %d times", err, freed)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if m.Handle != c.p || m.Size != c.size || m.ID != core.CPU {
				t.Errorf("got %+v", m)
			}
			m.Free()
			m.Free()
			if freed != 1 {
				t.Errorf("the owner was freed %d times", freed)
			}
		})
	}
}
