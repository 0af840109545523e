package benchmarks

import (
	"context"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// watched is a backend whose devices call saw before each copy on a stream.
type watched struct {
	core.Backend
	saw func(core.DeviceID)
}

type watchedDevice struct {
	*coretest.Device
	saw func(core.DeviceID)
}

func (b watched) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	d, err := b.Backend.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	return &watchedDevice{d.(*coretest.Device), b.saw}, nil
}

func (d *watchedDevice) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	if s != nil {
		d.saw(d.ID())
	}
	return d.Device.Copy(ctx, s, dst, src)
}

// The device that a transfer names makes the copy: only its streams copy.
func TestACopyByACertainDevice(t *testing.T) {
	first, second := core.DeviceID{Type: core.DeviceWebGPU}, core.DeviceID{Type: core.DeviceWebGPU, Index: 1}
	for text, by := range map[string]core.DeviceID{
		"(cpu->webgpu:0->webgpu:0)":      first,
		"(webgpu:1->webgpu:1->cpu)":      second,
		"(webgpu:0->webgpu:0->webgpu:0)": first,
		"(webgpu:0->webgpu:0->webgpu:1)": first,
		"(webgpu:0->webgpu:1->webgpu:1)": second,
	} {
		var copied []core.DeviceID
		r := hostRegistry(t)
		simulated := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Opaque: true, Log: t.Logf})
		if err := r.Register(watched{simulated, func(id core.DeviceID) {
			if !slices.Contains(copied, id) {
				copied = append(copied, id)
			}
		}}); err != nil {
			t.Fatal(err)
		}
		list := List(t.Context(), Selection{Registry: r, Transfers: []string{text}})
		report, err := Run(t.Context(), list, Options{Registry: r, Samples: 2, MaxTime: 1, Small: true, Simulated: true})
		if err != nil || len(list) != 1 {
			t.Fatalf("%s: %d cases, %v", text, len(list), err)
		}
		if c := report.Cases[0]; c.Name != "transfer/"+text || c.Status != OK || !c.Verified || !slices.Equal(copied, []core.DeviceID{by}) {
			t.Errorf("%s: %s, %q, verified %v; %v copied, want %v", c.Name, c.Status, c.Reason, c.Verified, copied, by)
		}
	}
}
