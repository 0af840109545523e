//go:build unix

package backendtest

import (
	"context"
	"sync"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// beacon is a simulated device whose semaphores can leave it: as the descriptor
// of a pipe, by which the semaphore is found again.
type beacon struct {
	*device
	hooks beaconHooks
	kind  core.HandleType // by which semaphores leave it

	mu       sync.Mutex
	made     map[core.Semaphore]bool
	exported map[fileID]core.Semaphore
}

type beaconHooks struct {
	create func(*beacon, context.Context, core.HandleType) (core.Semaphore, error)
	types  func() []core.HandleType // that it says it exports and imports
	export func(*beacon, core.Semaphore, core.HandleType) (core.ExternalSemaphore, error)
	open   func(*beacon, context.Context, core.ExternalSemaphore) (core.Semaphore, error)
}

var (
	_ core.SemaphoreCreator  = (*beacon)(nil)
	_ core.SemaphoreExporter = (*beacon)(nil)
	_ core.SemaphoreImporter = (*beacon)(nil)
)

func (b *beacon) Properties() core.Properties {
	p := b.device.Properties()
	p.Capabilities |= core.CapExportSemaphores | core.CapImportSemaphores
	return p
}

func (b *beacon) SemaphoreExportTypes() []core.HandleType {
	if b.hooks.types != nil {
		return b.hooks.types()
	}
	return []core.HandleType{b.kind}
}

func (b *beacon) SemaphoreImportTypes() []core.HandleType { return b.SemaphoreExportTypes() }

func (b *beacon) fail(sentinel error, call string) error {
	return core.Errorf(sentinel, "beacon", call, "refused")
}

func (b *beacon) NewSemaphore(ctx context.Context, h core.HandleType) (core.Semaphore, error) {
	if b.hooks.create != nil {
		return b.hooks.create(b, ctx, h)
	}
	return b.create(ctx, h)
}

func (b *beacon) create(ctx context.Context, h core.HandleType) (core.Semaphore, error) {
	if h != 0 && h != b.kind {
		return nil, b.fail(core.ErrNotSupported, "NewSemaphore")
	}
	sem, err := b.device.NewSemaphore(ctx, 0)
	if h == core.HandleBinaryFD && err == nil {
		sem = &flag{Semaphore: sem}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made[sem] = h != 0
	return sem, err
}

func (b *beacon) ExportSemaphore(s core.Semaphore, h core.HandleType) (core.ExternalSemaphore, error) {
	if b.hooks.export != nil {
		return b.hooks.export(b, s, h)
	}
	return b.export(s, h)
}

func (b *beacon) export(s core.Semaphore, h core.HandleType) (x core.ExternalSemaphore, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case h != b.kind:
		return x, b.fail(core.ErrNotSupported, "ExportSemaphore")
	case !b.made[s]:
		return x, b.fail(core.ErrInvalid, "ExportSemaphore")
	}
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		return x, err
	}
	if err := syscall.Close(pipe[1]); err != nil {
		return x, err
	}
	id, err := fileOf(pipe[0])
	if err != nil {
		return x, err
	}
	b.exported[id] = s
	x.Handle, err = backendkit.NewHandle(h, uintptr(pipe[0]))
	return x, err
}

func (b *beacon) ImportSemaphore(ctx context.Context, x core.ExternalSemaphore) (core.Semaphore, error) {
	if b.hooks.open != nil {
		return b.hooks.open(b, ctx, x)
	}
	return b.open(x)
}

func (b *beacon) open(x core.ExternalSemaphore) (core.Semaphore, error) {
	switch {
	case x.Handle.Type() != b.kind:
		return nil, b.fail(core.ErrNotSupported, "ImportSemaphore")
	case x.DeviceUUID != core.UUID{} || x.DriverUUID != core.UUID{}:
		return nil, b.fail(core.ErrDevice, "ImportSemaphore")
	}
	number, err := x.Handle.Number()
	if err != nil {
		return nil, err
	}
	id, err := fileOf(int(number))
	if err != nil {
		return nil, b.fail(core.ErrInvalid, "ImportSemaphore")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if f, ok := b.exported[id].(*flag); ok {
		return &flag{Semaphore: borrowed{f.Semaphore}}, x.Close()
	}
	return borrowed{b.exported[id]}, x.Close()
}

// borrowed is a semaphore that somebody else closes.
type borrowed struct{ core.Semaphore }

func (borrowed) Close() error { return nil }

func (borrowed) Value() (uint64, error) {
	return 0, core.Errorf(core.ErrNotSupported, "beacon", "Value", "the host cannot read it")
}

// beacons opens devices whose semaphores leave them by a type of handle. release closes them.
func beacons(t *testing.T, kind core.HandleType, h beaconHooks) (open func(testing.TB) core.Device, release func()) {
	first, _ := wrapped(coretest.Options{}, hooks{})
	var opened []*device
	return func(tb testing.TB) core.Device {
			d := first(tb)
			opened = append(opened, d)
			return &beacon{device: d, hooks: h, kind: kind, made: make(map[core.Semaphore]bool), exported: make(map[fileID]core.Semaphore)}
		}, func() {
			for _, d := range opened {
				d.release(t)
			}
		}
}

func TestSuiteFindsMutantsThatShareSemaphores(t *testing.T) {
	found := make(map[string]bool)
	for _, m := range []struct {
		name  string
		hooks beaconHooks
		fails string
		says  string
	}{
		{"makes none for export", beaconHooks{create: func(b *beacon, ctx context.Context, h core.HandleType) (core.Semaphore, error) {
			if h != 0 {
				return nil, b.fail(core.ErrNotSupported, "NewSemaphore")
			}
			return b.create(ctx, h)
		}}, "export-semaphore/types", "NewSemaphore exportable as opaque_fd"},
		{"tells nobody what it exports", beaconHooks{types: func() []core.HandleType { return nil }},
			"export-semaphore/types", "for opaque_fd, which is not listed: error <nil>"},
		{"tells nobody what it imports", beaconHooks{types: func() []core.HandleType { return nil }},
			"import-semaphore/types", "imports no handle type"},
		{"exports as what it is not asked for", beaconHooks{export: func(b *beacon, s core.Semaphore, _ core.HandleType) (core.ExternalSemaphore, error) {
			return b.export(s, core.HandleOpaqueFD)
		}}, "export-semaphore/types", "as an unknown type: error <nil>"},
		{"opens another counter", beaconHooks{open: func(b *beacon, ctx context.Context, x core.ExternalSemaphore) (core.Semaphore, error) {
			if err := x.Close(); err != nil {
				return nil, err
			}
			return b.device.NewSemaphore(ctx, 0)
		}}, "export-semaphore/same-counter", "Wait for the signal through the import"},
		{"forgets the descriptor", beaconHooks{open: func(b *beacon, _ context.Context, x core.ExternalSemaphore) (core.Semaphore, error) {
			given := x
			x, err := x.Duplicate()
			if err != nil {
				return nil, err
			}
			if forgotten, err := given.Handle.Take(); err == nil {
				b.later(func() { _ = syscall.Close(int(forgotten)) })
			}
			return b.open(x)
		}}, "export-semaphore/handle", "is still open"},
		{"leaves the handle", beaconHooks{open: func(b *beacon, _ context.Context, x core.ExternalSemaphore) (core.Semaphore, error) {
			x, err := x.Duplicate()
			if err != nil {
				return nil, err
			}
			return b.open(x)
		}}, "export-semaphore/handle", "Duplicate of a handle that was imported: error <nil>"},
		{"opens semaphores of any device", beaconHooks{open: func(b *beacon, _ context.Context, x core.ExternalSemaphore) (core.Semaphore, error) {
			x.DeviceUUID, x.DriverUUID = core.UUID{}, core.UUID{}
			return b.open(x)
		}}, "export-semaphore/refused-import", "another device's UUID: error <nil>"},
		{"closes the handle of an import that failed", beaconHooks{open: func(b *beacon, _ context.Context, x core.ExternalSemaphore) (core.Semaphore, error) {
			s, err := b.open(x)
			if err != nil {
				_ = x.Close()
			}
			return s, err
		}}, "export-semaphore/refused-import", "Duplicate of opaque_fd"},
		{"opens any type", beaconHooks{open: func(b *beacon, _ context.Context, x core.ExternalSemaphore) (core.Semaphore, error) {
			if x.Handle == nil {
				return b.device.NewSemaphore(context.Background(), 0)
			}
			return b.open(x)
		}}, "import-semaphore/types", "the import of no handle: error <nil>"},
	} {
		found[m.fails] = true
		t.Run(m.name, func(t *testing.T) {
			device, release := beacons(t, core.HandleOpaqueFD, m.hooks)
			defer release()
			wantFailure(t, m.fails, m.says, device)
		})
	}
	for _, c := range semaphoreCases {
		if c.Needs&leaves == 0 {
			continue
		}
		if !found[c.Name] {
			t.Errorf("%s: no mutant shows that it can fail", c.Name)
		}
		// The hooks alone make the difference.
		for _, kind := range []core.HandleType{core.HandleOpaqueFD, core.HandleBinaryFD} {
			device, release := beacons(t, kind, beaconHooks{})
			if r := record(t, c, device); r.Failed() || r.skipped {
				t.Errorf("%s, %v, without hooks: %q", c.Name, kind, r.log)
			}
			release()
		}
	}
}
