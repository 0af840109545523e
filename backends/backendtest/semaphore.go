package backendtest

import (
	"errors"

	"github.com/dlx-go/dlx/core"
)

var semaphoreCases = []Case{
	{
		Name:  "semaphore/value",
		Rule:  "core.Semaphore: begins at 0; Signal sets it when the stream gets there",
		Needs: core.CapSemaphores,
		run:   caseSemaphoreValue,
	},
	{
		Name:  "semaphore/only-grows",
		Rule:  "core.Semaphore.Signal: a value that is not larger than before fails with ErrInvalid, at once or as the stream's work, and changes nothing",
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
		Name:  "semaphore/export",
		Rule:  "core.SemaphoreExporter: each handle type fails with ErrNotSupported or gives a descriptor by which the same counter is imported",
		Needs: core.CapSemaphores,
		run:   caseSemaphoreExport,
	},
}

// semaphore opens a semaphore.
func (e *env) semaphore() core.Semaphore {
	e.Helper()
	sem, err := as[core.SemaphoreExporter](e).NewSemaphore(e.ctx, 0)
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

func caseSemaphoreExport(e *env) {
	exporter, importer := as[core.SemaphoreExporter](e), as[core.SemaphoreImporter](e)
	s := e.stream()
	for _, h := range append([]core.HandleType{9999}, handleTypes...) {
		sem, err := exporter.NewSemaphore(e.ctx, h)
		if errors.Is(err, core.ErrNotSupported) {
			e.wantTyped(err, "NewSemaphore")
			continue
		}
		e.check(err, "NewSemaphore exportable as %v", h)
		e.closeLater(sem)
		fd, err := exporter.ExportSemaphore(sem, h)
		e.check(err, "ExportSemaphore as %v", h)
		imported, err := importer.ImportSemaphore(e.ctx, fd, h)
		if err != nil {
			e.closeFD(fd)
		}
		e.check(err, "ImportSemaphore of %v", h)
		e.closeLater(imported)
		e.check(sem.Signal(s, 3), "Signal")
		e.check(imported.Wait(e.ctx, 3), "Wait for the signal through the import")
	}
	plain := e.semaphore()
	_, err := exporter.ExportSemaphore(plain, 9999)
	e.wantError(err, core.ErrNotSupported, "ExportSemaphore as an unknown type")
	_, err = importer.ImportSemaphore(e.ctx, -1, 9999)
	e.wantError(err, core.ErrNotSupported, "ImportSemaphore of an unknown type")
}
