package all

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

func TestNewRegistersEveryBackend(t *testing.T) {
	want, got := backends(), New().Backends()
	if len(got) != len(want) {
		t.Fatalf("%d of %d backends are registered: two have one name", len(got), len(want))
	}
	for i, b := range got {
		if b.Name() != want[i].Name() {
			t.Errorf("backend %d is %q, want %q", i, b.Name(), want[i].Name())
		}
	}
	if got[0].Name() != "cpu" {
		t.Errorf("the first backend is %q, want the host", got[0].Name())
	}
}

func TestEveryBackendServesItsDevices(t *testing.T) {
	ctx := context.Background()
	r := New()
	for _, b := range r.Backends() {
		probe := b.Probe(ctx)
		list, err := b.Devices(ctx)
		if probe.Available != (err == nil) || probe.Available == (probe.Reason != "") {
			t.Errorf("%s: probe %+v, but Devices fails with %v", b.Name(), probe, err)
		}
		for _, p := range list {
			d, err := r.Open(ctx, p.ID)
			if err != nil {
				t.Errorf("%v: %v", p.ID, err)
				continue
			}
			if d.ID() != p.ID {
				t.Errorf("%v opens as %v", p.ID, d.ID())
			}
			if err := d.Close(); err != nil {
				t.Errorf("%v: %v", p.ID, err)
			}
		}
	}
}

func TestRegistriesAreIndependent(t *testing.T) {
	first := New()
	if err := first.Register(New().Backends()[0]); !errors.Is(err, core.ErrExists) {
		t.Errorf("a second backend of the same name: %v", err)
	}
	if len(first.Backends()) != len(New().Backends()) {
		t.Error("registries share their backends")
	}
}
