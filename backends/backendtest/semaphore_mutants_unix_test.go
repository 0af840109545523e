//go:build unix

package backendtest

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// beacon is a simulated device whose semaphores can leave it: as the descriptor
// of a pipe, by which the semaphore is found again.
type beacon struct {
	*wrapper
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
	open   func(*beacon, core.ExternalSemaphore) (core.Semaphore, error)
}

var (
	_ core.SemaphoreCreator  = (*beacon)(nil)
	_ core.SemaphoreExporter = (*beacon)(nil)
	_ core.SemaphoreImporter = (*beacon)(nil)
)

func (b *beacon) Properties() core.Properties {
	p := b.wrapper.Properties()
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
	sem, err := b.wrapper.NewSemaphore(ctx, 0)
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

func (b *beacon) ImportSemaphore(_ context.Context, x core.ExternalSemaphore) (core.Semaphore, error) {
	if b.hooks.open != nil {
		return b.hooks.open(b, x)
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

// beacons opens devices whose semaphores leave them by a type of handle.
func beacons(t *testing.T, kind core.HandleType, h beaconHooks) func(testing.TB) core.Device {
	return opens(t, hooks{}, func(d *device) core.Device {
		return &beacon{wrapper: d.outer.(*wrapper), hooks: h, kind: kind, made: make(map[core.Semaphore]bool), exported: make(map[fileID]core.Semaphore)}
	})
}

// importsAs imports semaphores by open.
func importsAs(open func(*beacon, core.ExternalSemaphore) (core.Semaphore, error)) beaconHooks {
	return beaconHooks{open: open}
}

var listsNothing = beaconHooks{types: func() []core.HandleType { return nil }}

var sharedSemaphoreMutants = []mutant[beaconHooks]{
	{"makes none for export", "export-semaphore/types", "NewSemaphore exportable as opaque_fd",
		beaconHooks{create: func(b *beacon, ctx context.Context, h core.HandleType) (core.Semaphore, error) {
			if h != 0 {
				return nil, b.fail(core.ErrNotSupported, "NewSemaphore")
			}
			return b.create(ctx, h)
		}}},
	{"tells nobody what it exports", "export-semaphore/types", "for opaque_fd, which is not listed: error <nil>", listsNothing},
	{"tells nobody what it imports", "import-semaphore/types", "imports no handle type", listsNothing},
	{"exports as what it is not asked for", "export-semaphore/types", "as an unknown type: error <nil>",
		beaconHooks{export: func(b *beacon, s core.Semaphore, _ core.HandleType) (core.ExternalSemaphore, error) {
			return b.export(s, core.HandleOpaqueFD)
		}}},
	{"opens another counter", "export-semaphore/same-counter", "Wait for the signal through the import",
		importsAs(func(b *beacon, x core.ExternalSemaphore) (core.Semaphore, error) {
			if err := x.Close(); err != nil {
				return nil, err
			}
			return b.wrapper.NewSemaphore(context.Background(), 0)
		})},
	{"forgets the descriptor", "export-semaphore/handle", "is still open",
		importsAs(func(b *beacon, x core.ExternalSemaphore) (core.Semaphore, error) {
			given := x
			x, err := x.Duplicate()
			if err != nil {
				return nil, err
			}
			if forgotten, err := given.Handle.Take(); err == nil {
				b.later(func() { _ = syscall.Close(int(forgotten)) })
			}
			return b.open(x)
		})},
	{"leaves the handle", "export-semaphore/handle", "Duplicate of a handle that was imported: error <nil>",
		importsAs(func(b *beacon, x core.ExternalSemaphore) (core.Semaphore, error) {
			x, err := x.Duplicate()
			if err != nil {
				return nil, err
			}
			return b.open(x)
		})},
	{"opens semaphores of any device", "export-semaphore/refused-import", "another device's UUID: error <nil>",
		importsAs(func(b *beacon, x core.ExternalSemaphore) (core.Semaphore, error) {
			x.DeviceUUID, x.DriverUUID = core.UUID{}, core.UUID{}
			return b.open(x)
		})},
	{"closes the handle of an import that failed", "export-semaphore/refused-import", "Duplicate of opaque_fd",
		importsAs(func(b *beacon, x core.ExternalSemaphore) (core.Semaphore, error) {
			s, err := b.open(x)
			if err != nil {
				_ = x.Close()
			}
			return s, err
		})},
	{"opens any type", "import-semaphore/types", "the import of no handle: error <nil>",
		importsAs(func(b *beacon, x core.ExternalSemaphore) (core.Semaphore, error) {
			if x.Handle == nil {
				return b.wrapper.NewSemaphore(context.Background(), 0)
			}
			return b.open(x)
		})},
}

func TestSuiteFindsMutantsThatShareSemaphores(t *testing.T) {
	cases := slices.DeleteFunc(slices.Clone(semaphoreCases), func(c Case) bool { return c.Needs&leaves == 0 })
	findMutants(t, cases, sharedSemaphoreMutants, func(t *testing.T, h beaconHooks) (func(testing.TB) core.Device, []Options) {
		return beacons(t, core.HandleOpaqueFD, h), nil
	})
	for _, kind := range []core.HandleType{core.HandleOpaqueFD, core.HandleBinaryFD} {
		t.Logf("handles of type %v", kind)
		wantPass(t, cases, beacons(t, kind, beaconHooks{}))
	}
}
