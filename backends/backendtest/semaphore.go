package backendtest

import (
	"bytes"
	"errors"
	"slices"

	"github.com/dlx-go/dlx/core"
)

var semaphoreCases = []Case{
	{
		Name:  "semaphore/value",
		Rule:  "core.Semaphore: begins at 0; Signal sets it when the stream reaches the signal",
		Needs: core.CapSemaphores,
		run:   caseSemaphoreValue,
	},
	{
		Name:  "semaphore/only-grows",
		Rule:  "core.Semaphore.Signal: a value that is not larger than the current one fails with ErrInvalid, at the call or as work of the stream, and changes nothing",
		Needs: core.CapSemaphores,
		run:   caseSemaphoreGrows,
	},
	{
		Name:  "semaphore/orders-streams",
		Rule:  "core.Semaphore.WaitOn: later work on the stream waits until the counter has reached the value",
		Needs: core.CapSemaphores | core.CapAsync,
		run:   caseSemaphoreOrders,
	},
	{
		Name:  "semaphore/context",
		Rule:  "core.Semaphore.Wait: blocks until the counter has reached the value or ctx ends, and returns ctx's error then",
		Needs: core.CapSemaphores,
		run:   caseSemaphoreContext,
	},
	{
		Name:  "semaphore/close",
		Rule:  "core.Semaphore.Close: a second Close does nothing; other calls then fail with ErrClosed",
		Needs: core.CapSemaphores,
		run:   caseSemaphoreClose,
	},
	{
		Name:  "export-semaphore/types",
		Rule:  "core.SemaphoreExporter.SemaphoreExportTypes: NewSemaphore takes each of them; NewSemaphore and ExportSemaphore fail with ErrNotSupported for any other type; ExportSemaphore fails with ErrInvalid for a semaphore that was not made for export",
		Needs: core.CapExportSemaphores,
		run:   caseSemaphoreTypes,
	},
	{
		Name:  "export-semaphore/same-counter",
		Rule:  "core.SemaphoreImporter: an import is the exported counter; each side sees the other's signals; Value of an import may fail with ErrNotSupported. core.BinarySemaphore: each value is signalled once and waited for once, on any side, and nobody reads it; Release ends a wait whose signal never comes",
		Needs: core.CapExportSemaphores | core.CapImportSemaphores,
		run:   caseSemaphoreShared,
	},
	{
		Name:  "export-semaphore/handle",
		Rule:  "core.SemaphoreImporter.ImportSemaphore: on success the handle is empty, and the result closes its descriptor",
		Needs: core.CapExportSemaphores | core.CapImportSemaphores,
		run:   caseSemaphoreHandle,
	},
	{
		Name:  "export-semaphore/refused-import",
		Rule:  "core.SemaphoreImporter.ImportSemaphore: fails with ErrDevice for UUIDs of another device, with ErrNotSupported without a handle, with ErrClosed for an empty one; the handle stays the caller's",
		Needs: core.CapExportSemaphores | core.CapImportSemaphores,
		run:   caseSemaphoreRefused,
	},
	{
		Name:  "import-semaphore/types",
		Rule:  "core.SemaphoreImporter.SemaphoreImportTypes: ImportSemaphore takes these, and fails with ErrNotSupported for any other",
		Needs: core.CapImportSemaphores,
		run:   caseSemaphoreImportTypes,
	},
}

// semaphore opens a semaphore.
func (e *env) semaphore() core.Semaphore {
	e.Helper()
	sem, err := as[core.SemaphoreCreator](e).NewSemaphore(e.ctx, 0)
	e.check(err, "NewSemaphore")
	e.closeLater(sem)
	return sem
}

// closeLater closes a semaphore when the case is over.
func (e *env) closeLater(sem core.Semaphore) {
	e.Cleanup(func() {
		if err := sem.Close(); err != nil {
			e.Errorf("Close of a semaphore: %v", err)
		}
	})
}

// wantValue proves what a semaphore counts now.
func (e *env) wantValue(sem core.Semaphore, want uint64, when string) {
	e.Helper()
	if v, err := sem.Value(); err != nil || v != want {
		e.Errorf("%s: Value is %d, error %v; want %d", when, v, err, want)
	}
}

func caseSemaphoreValue(e *env) {
	sem, s := e.semaphore(), e.stream()
	e.wantValue(sem, 0, "at first")
	e.check(sem.Wait(e.ctx, 0), "Wait for 0")
	for _, v := range []uint64{1, 7, 1 << 40} {
		e.check(sem.Signal(s, v), "Signal(%d)", v)
		e.check(sem.Wait(e.ctx, v), "Wait(%d)", v)
		e.wantValue(sem, v, "after Wait")
	}
	e.check(sem.Wait(e.ctx, 3), "Wait for a value that was passed")
	e.check(sem.WaitOn(s, 3), "WaitOn a value that was passed")
	e.synchronize(s)
}

func caseSemaphoreGrows(e *env) {
	sem, s := e.semaphore(), e.stream()
	e.check(sem.Signal(s, 5), "Signal(5)")
	e.synchronize(s)
	for _, v := range []uint64{0, 4, 5} {
		e.wantError(errors.Join(sem.Signal(s, v), s.Synchronize(e.ctx)), core.ErrInvalid, "Signal(%d) after 5", v)
	}
	e.wantValue(sem, 5, "after the refused signals")
	e.check(sem.Signal(s, 6), "Signal(6)")
	e.synchronize(s)
	e.wantValue(sem, 6, "after one more")
}

func caseSemaphoreOrders(e *env) {
	sem, waiter, signaller := e.semaphore(), e.stream(), e.stream()
	content := e.pattern(1000)
	host := make([]byte, 1000)
	e.check(sem.WaitOn(waiter, 2), "WaitOn")
	e.copy(waiter, e.hostBytes(host), e.upload(content))
	ev := e.record(waiter)
	e.check(sem.Signal(signaller, 1), "Signal(1)")
	e.synchronize(signaller)
	if e.isDone(ev) || e.passes(waiter) {
		e.Errorf("work that waits for 2 is done at 1")
	}
	e.check(sem.Signal(signaller, 2), "Signal(2)")
	e.check(signaller.Synchronize(e.ctx), "Synchronize")
	e.synchronize(waiter)
	if string(host) != string(content) {
		e.Errorf("the work that waited: %s", difference(host, content))
	}
}

func caseSemaphoreContext(e *env) {
	sem, s := e.semaphore(), e.stream()
	ctx, cancel := e.soon()
	defer cancel()
	err := e.finish(e.start(func() error { return sem.Wait(ctx, 1) }))
	e.wantContext(err, "Wait")
	e.check(sem.Signal(s, 1), "Signal")
	e.check(sem.Wait(e.ctx, 1), "Wait after ctx ended once")
}

func caseSemaphoreClose(e *env) {
	sem, s := e.semaphore(), e.stream()
	for i := range 3 {
		if err := sem.Close(); err != nil {
			e.Errorf("Close number %d: %v", i+1, err)
		}
	}
	e.wantError(sem.Signal(s, 1), core.ErrClosed, "Signal")
	e.wantError(sem.WaitOn(s, 1), core.ErrClosed, "WaitOn")
	_, err := sem.Value()
	e.wantError(err, core.ErrClosed, "Value")
	e.wantError(sem.Wait(e.ctx, 1), core.ErrClosed, "Wait")
}

// eachSemaphore runs f with a semaphore for each handle type that can be exported
// and, if imported is set, imported as well.
func (e *env) eachSemaphore(imported bool, f func(sem core.Semaphore, h core.HandleType)) {
	e.Helper()
	for _, h := range as[core.SemaphoreExporter](e).SemaphoreExportTypes() {
		if imported && !slices.Contains(as[core.SemaphoreImporter](e).SemaphoreImportTypes(), h) {
			continue
		}
		sem, err := as[core.SemaphoreCreator](e).NewSemaphore(e.ctx, h)
		e.check(err, "NewSemaphore exportable as %v", h)
		e.closeLater(sem)
		f(sem, h)
	}
}

// exportSemaphore returns a handle, which the case owns.
func (e *env) exportSemaphore(sem core.Semaphore, h core.HandleType) core.ExternalSemaphore {
	e.Helper()
	x, err := as[core.SemaphoreExporter](e).ExportSemaphore(sem, h)
	e.check(err, "ExportSemaphore as %v", h)
	if x.Handle.Type() != h {
		e.Errorf("exported as %v: the handle is %v", h, x.Handle)
	}
	return x
}

// importSemaphore opens a semaphore, or closes the handle and ends the case.
func (e *env) importSemaphore(x core.ExternalSemaphore) core.Semaphore {
	e.Helper()
	defer x.Close()
	sem, err := as[core.SemaphoreImporter](e).ImportSemaphore(e.ctx, x)
	e.check(err, "ImportSemaphore of %v", x.Handle)
	e.closeLater(sem)
	return sem
}

func caseSemaphoreTypes(e *env) {
	exporter := as[core.SemaphoreExporter](e)
	types := exporter.SemaphoreExportTypes()
	if len(types) == 0 {
		e.Errorf("the device declares %v, but exports no handle type", core.CapExportSemaphores)
	}
	plain := e.semaphore()
	e.eachSemaphore(false, func(sem core.Semaphore, h core.HandleType) {
		_ = e.exportSemaphore(sem, h).Close()
		x, err := exporter.ExportSemaphore(plain, h)
		_ = x.Close()
		e.wantError(err, core.ErrInvalid, "ExportSemaphore as %v of a semaphore that was not made for it", h)
		x, err = exporter.ExportSemaphore(sem, 9999)
		_ = x.Close()
		e.wantError(err, core.ErrNotSupported, "ExportSemaphore as an unknown type")
	})
	for _, h := range append(slices.Clone(handleTypes), 9999) {
		if slices.Contains(types, h) {
			continue
		}
		sem, err := as[core.SemaphoreCreator](e).NewSemaphore(e.ctx, h)
		e.wantError(err, core.ErrNotSupported, "NewSemaphore for %v, which is not listed", h)
		if err == nil {
			e.closeLater(sem)
		}
	}
}

func caseSemaphoreShared(e *env) {
	s := e.stream()
	e.eachSemaphore(true, func(sem core.Semaphore, h core.HandleType) {
		imported := e.importSemaphore(e.exportSemaphore(sem, h))
		if h == core.HandleBinaryFD {
			e.takeTurns(sem, imported)
			return
		}
		e.check(sem.Signal(s, 3), "Signal")
		e.check(imported.Wait(e.ctx, 3), "Wait for the signal through the import")
		if v, err := imported.Value(); !errors.Is(err, core.ErrNotSupported) && (err != nil || v != 3) {
			e.Errorf("Value of the import is %d, error %v; want 3 or ErrNotSupported", v, err)
		}
		e.check(imported.Signal(s, 5), "Signal through the import")
		e.check(sem.Wait(e.ctx, 5), "Wait for the import's signal")
		e.wantValue(sem, 5, "after the import's signal")
		e.check(imported.Close(), "Close of the import")
		e.wantValue(sem, 5, "after the import was closed")
	})
}

// takeTurns uses both sides of a binary semaphore in both directions.
func (e *env) takeTurns(sem, imported core.Semaphore) {
	e.Helper()
	signaller, waiter := e.stream(), e.stream()
	from, to := sem, imported
	for v := uint64(1); v <= 4; v++ {
		content, host := e.pattern(1000), make([]byte, 1000)
		x := e.upload(content)
		e.check(from.Signal(signaller, v), "Signal(%d)", v)
		e.wantError(from.Signal(signaller, v), core.ErrInvalid, "Signal(%d) once more", v)
		e.check(to.WaitOn(waiter, v), "WaitOn(%d)", v)
		e.wantError(to.WaitOn(waiter, v), core.ErrInvalid, "WaitOn(%d) once more", v)
		e.copy(waiter, e.hostBytes(host), x)
		e.synchronize(waiter)
		e.synchronize(signaller)
		if !bytes.Equal(host, content) {
			e.Errorf("the copy behind wait %d has other bytes", v)
		}
		from, to = to, from
	}
	for _, side := range []core.Semaphore{sem, imported} {
		_, err := side.Value()
		e.wantError(err, core.ErrNotSupported, "Value of a binary semaphore")
		e.wantError(side.Wait(e.ctx, 4), core.ErrNotSupported, "Wait for a binary semaphore")
		if _, ok := side.(core.BinarySemaphore); !ok {
			e.Errorf("%T is not a core.BinarySemaphore", side)
		}
	}
	waited, isBinary := sem.(core.BinarySemaphore)
	signalled, both := imported.(core.BinarySemaphore)
	if isBinary && both { // sem was the side that waited for 4
		e.check(waited.Release(e.ctx, 4), "Release of a wait that is over")
		e.wantError(signalled.Release(e.ctx, 4), core.ErrInvalid, "Release of a value that this side has not waited for")
		e.check(imported.WaitOn(waiter, 5), "WaitOn(5), whose signal never comes")
		if e.isDone(e.record(waiter)) || e.passes(waiter) {
			e.Errorf("work behind a wait is done, and nobody has signalled")
		}
		e.check(signalled.Release(e.ctx, 5), "Release of a wait whose signal never comes")
		e.check(waiter.Synchronize(e.ctx), "Synchronize after Release")
	}
	e.check(imported.Close(), "Close of the import")
	e.wantError(imported.Signal(signaller, 6), core.ErrClosed, "Signal after Close")
}

func caseSemaphoreHandle(e *env) {
	e.eachSemaphore(true, func(sem core.Semaphore, h core.HandleType) {
		x := e.exportSemaphore(sem, h)
		number, before, known := e.fileOf(x.Handle)
		imported, err := as[core.SemaphoreImporter](e).ImportSemaphore(e.ctx, x)
		e.wantEmpty(x.Handle, err)
		e.check(imported.Close(), "Close of the import")
		// The number may be another file's by now.
		if after, err := fileOf(number); known && err == nil && after == before {
			e.Errorf("descriptor %d is still open after the import was closed", number)
		}
	})
}

func caseSemaphoreRefused(e *env) {
	importer := as[core.SemaphoreImporter](e)
	e.eachSemaphore(true, func(sem core.Semaphore, h core.HandleType) {
		x := e.exportSemaphore(sem, h)
		refused := func(change func(*core.ExternalSemaphore), sentinel error, what string) {
			e.Helper()
			bad := x
			change(&bad)
			imported, err := importer.ImportSemaphore(e.ctx, bad)
			e.wantError(err, sentinel, "ImportSemaphore with %s", what)
			if err == nil {
				e.closeLater(imported)
			}
		}
		refused(func(x *core.ExternalSemaphore) { x.DeviceUUID[3] ^= 1 }, core.ErrDevice, "another device's UUID")
		if x.DriverUUID != (core.UUID{}) {
			refused(func(x *core.ExternalSemaphore) { x.DriverUUID[3] ^= 1 }, core.ErrDevice, "another driver's UUID")
		}
		refused(func(x *core.ExternalSemaphore) { x.Handle = nil }, core.ErrNotSupported, "no handle")
		refused(func(x *core.ExternalSemaphore) { x.Handle = e.emptied(x.Handle) }, core.ErrClosed, "an empty handle")
		e.importSemaphore(x)
	})
}

func caseSemaphoreImportTypes(e *env) {
	importer := as[core.SemaphoreImporter](e)
	types := importer.SemaphoreImportTypes()
	if len(types) == 0 {
		e.Errorf("the device declares %v, but imports no handle type", core.CapImportSemaphores)
	}
	e.eachStranger(types, func(h *core.Handle) error {
		sem, err := importer.ImportSemaphore(e.ctx, core.ExternalSemaphore{Handle: h, DeviceUUID: e.props.UUID, DriverUUID: e.props.DriverUUID})
		if err == nil {
			e.closeLater(sem)
		}
		return err
	})
}
