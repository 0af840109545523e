package handoff_test

import (
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/cmd/dlx/internal/handoff"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMemoryIsAskedForSuchThatTheNextDeviceCanShareIt(t *testing.T) {
	device := func(b core.Backend, id core.DeviceID) core.Device {
		d, err := b.Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	maps := coretest.NewBackend(coretest.Options{Log: t.Logf})
	exports := coretest.NewBackend(coretest.Options{Log: t.Logf, Opaque: true})
	host, mapper := device(cpu.New(), core.CPU), device(maps, ext0)
	a, b := device(exports, web0), device(exports, core.DeviceID{Type: core.DeviceWebGPU, Index: 1})
	again := device(exports, web0) // the same hardware, opened once more
	plain, visible := core.AllocOptions{}, core.AllocOptions{HostVisible: true}
	exported := visible // where the system has no descriptors
	if _, ok := a.(core.MemoryExporter); ok {
		exported = core.AllocOptions{Export: core.HandleOpaqueFD}
	}
	for _, c := range []struct {
		name       string
		from, next core.Device
		want       core.AllocOptions
	}{
		{"memory of the device itself", a, a, plain},
		{"host memory is mapped as it is", host, mapper, plain},
		{"memory that nobody else can use", mapper, host, plain},
		{"memory that nobody else can use, to a device", mapper, a, plain},
		{"the host sees it", a, host, visible},
		{"a device maps what the host sees", a, mapper, visible},
		{"an opaque handle fits the same hardware", a, again, exported},
		{"an opaque handle does not fit other hardware", a, b, visible},
	} {
		if got := handoff.AllocFor(c.from, c.next); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
