//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// importStream imports a stream, which is closed when the test ends.
func importStream(t testing.TB, d core.Device, native uintptr) core.Stream {
	t.Helper()
	s, err := d.(core.StreamImporter).ImportStream(t.Context(), native)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStreamsOfOtherLibrariesAreUsed(t *testing.T) {
	simulator(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d := opened(t)
	for what, native := range map[string]uintptr{
		"of another library": newStream(t, d).Native(),
		"legacy":             backend.LegacyStream,
		"the thread's":       backend.ThreadStream,
	} {
		s := importStream(t, d, native)
		if s.Native() != native {
			t.Errorf("%s: Native is %#x, want %#x", what, s.Native(), native)
		}
		x := row(t, d, 3000, core.AllocOptions{})
		host := keep(t)(core.FromSlice(pattern(3000, 7)))
		if err := d.Copy(t.Context(), s, x, host); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := s.Synchronize(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if !bytes.Equal(get(t, d, x), pattern(3000, 7)) {
			t.Errorf("%s: the bytes were not copied", what)
		}
	}
}

func TestAStreamOfAnotherContextIsNotImported(t *testing.T) {
	simulator(t)
	d, other := opened(t), opened(t, 1)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := cu.Device(d.ID().Index).MakeContext(cu.SchedAuto)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Destroy() }()
	elsewhere, err := cu.MakeStream(cu.NonBlocking)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = elsewhere.Destroy() }()
	if _, err := cu.PopCurrentCtx(); err != nil {
		t.Fatal(err)
	}
	for what, native := range map[string]uintptr{
		"0":                  0,
		"of another context": *(*uintptr)(unsafe.Pointer(&elsewhere)),
		"of another device":  newStream(t, other).Native(),
	} {
		_, err := d.(core.StreamImporter).ImportStream(t.Context(), native)
		wantError(t, err, core.ErrInvalid, what)
	}
}

func TestTheStreamOfAThreadIsRefusedOnOthers(t *testing.T) {
	simulator(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d := opened(t)
	s := importStream(t, d, backend.ThreadStream)
	a, b := row(t, d, 100, core.AllocOptions{}), row(t, d, 100, core.AllocOptions{})
	done := make(chan error)
	go func() { done <- d.Copy(t.Context(), s, a, b) }()
	wantError(t, <-done, core.ErrInvalid, "Copy on another thread")
	go func() { _, err := s.Record(); done <- err }()
	wantError(t, <-done, core.ErrInvalid, "Record on another thread")
	if err := d.Copy(t.Context(), s, a, b); err != nil {
		t.Errorf("Copy on the thread: %v", err)
	}
	go func() { done <- s.Close() }()
	if err := <-done; err != nil {
		t.Errorf("Close on another thread: %v", err)
	}
}

func TestAStreamWaitsForEventsOfAllDevicesOfCUDAOnly(t *testing.T) {
	sim := simulator(t)
	d, other := opened(t), opened(t, 1)
	first, second := newStream(t, other), newStream(t, d)
	sim.Hold(true)
	x := row(t, other, 1<<20, core.AllocOptions{})
	if err := other.Copy(t.Context(), first, x, keep(t)(core.FromSlice(pattern(1<<20, 1)))); err != nil {
		t.Fatal(err)
	}
	e, err := first.Record()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Wait(e); err != nil {
		t.Fatal(err)
	}
	after, err := second.Record()
	if err != nil {
		t.Fatal(err)
	}
	if done, _ := e.Done(); done {
		t.Error("an event was done while the streams were held")
	}
	sim.Hold(false)
	if err := after.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done, err := e.Done(); !done || err != nil {
		t.Errorf("an event was done before one that its stream waits for: %v, %v", done, err)
	}
	wantError(t, second.Wait(stream.NewEvent()), core.ErrNotSupported, "Wait for an event of the host")
	if err := second.Wait(nil); err != nil {
		t.Errorf("Wait for nothing: %v", err)
	}
}

func TestDriverEventsAreReused(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	s := newStream(t, d)
	for range 200 {
		if err := s.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := sim.Live()["events"]; n > 4 {
		t.Errorf("%d events are open after 200 in a row", n)
	}
}

func TestATimerMeasuresTheCard(t *testing.T) {
	d := opened(t)
	s := newStream(t, d)
	timer, err := NewTimer(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	_, err = timer.Elapsed(t.Context())
	wantError(t, err, core.ErrInvalid, "Elapsed before Start and Stop")
	x, y := row(t, d, 1<<20, core.AllocOptions{}), row(t, d, 1<<20, core.AllocOptions{})
	began := time.Now()
	if err := errors.Join(timer.Start(s), d.Copy(t.Context(), s, x, y), timer.Stop(s)); err != nil {
		t.Fatal(err)
	}
	took, err := timer.Elapsed(t.Context())
	if whole := time.Since(began); err != nil || took < 0 || took > whole {
		t.Errorf("a copy took %v of %v: %v", took, whole, err)
	}
	if err := errors.Join(timer.Close(), timer.Close()); err != nil {
		t.Error(err)
	}
	wantError(t, timer.Start(s), core.ErrClosed, "Start after Close")
	_, err = timer.Elapsed(t.Context())
	wantError(t, err, core.ErrClosed, "Elapsed after Close")
}

func TestATimerIsUsedWhileAnotherGoroutineWaitsForItsTime(t *testing.T) {
	simulator(t)
	d := opened(t)
	s := newStream(t, d)
	timer, err := NewTimer(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	began, goOn := make(chan struct{}), make(chan struct{})
	defer close(goOn)
	work := func() error {
		return failed(libraryOf(t, d).context.LaunchHostFunc(s.Native(), func() { close(began); <-goOn }))
	}
	if err := errors.Join(timer.Start(s), work(), timer.Stop(s)); err != nil {
		t.Fatal(err)
	}
	<-began // the driver has called the host function
	elapsed := make(chan error, 1)
	go func() { _, err := timer.Elapsed(t.Context()); elapsed <- err }()
	time.Sleep(10 * time.Millisecond)
	used := make(chan error, 1)
	go func() { used <- errors.Join(timer.Start(s), timer.Stop(s), timer.Close()) }()
	for what, done := range map[string]chan error{"Start, Stop and Close": used, "Elapsed": elapsed} {
		select {
		case err = <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s waited for the work that is timed", what)
		}
		if what == "Elapsed" {
			wantError(t, err, core.ErrClosed, what)
		} else if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Callers free memory after Synchronize, so it must also wait if no event can be recorded.
func TestSynchronizeWaitsWithoutAnEvent(t *testing.T) {
	sim := simulator(t)
	for _, call := range []string{"cuEventCreate", "cuEventRecord"} {
		d, other := opened(t), opened(t) // d has no unused event, so it must make one
		s := newStream(t, d)
		want := pattern(5000, 4)
		x, dst := row(t, other, 5000, core.AllocOptions{}), row(t, other, 5000, core.AllocOptions{Type: core.DeviceCUDAHost})
		put(t, other, x, want)
		sim.Hold(true)
		if err := failed(statusOf(libraryOf(t, d).context.Copy(addressOf(t, dst), addressOf(t, x), 5000, s.Native(), 0))); err != nil {
			t.Fatal(err)
		}
		sim.Fail(call, 1, int(driver.OutOfMemory))
		if err := s.Synchronize(t.Context()); err != nil {
			t.Errorf("%s fails: %v", call, err)
		}
		at := addressOf(t, dst)
		if got := unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), 5000); !bytes.Equal(got, want) {
			t.Errorf("%s fails: Synchronize returned before the work was done", call)
		}
		sim.Hold(false)
	}
}

func TestADriverWhoseQueriesKeepFailingIsLost(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	s := newStream(t, d)
	sim.Hold(true)
	e, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	failQueries := func(times int) (done bool) {
		for range times {
			sim.Fail("cuEventQuery", 1, int(driver.Unknown))
			done, err = e.Done()
		}
		return done
	}
	if failQueries(cudalike.MaxQueryFailures - 1) {
		t.Fatalf("an event was done after failed queries: %v", err)
	}
	if done, err := e.Done(); done || err != nil { // a query succeeds, and the count starts again
		t.Fatalf("done %v: %v", done, err)
	}
	if failQueries(cudalike.MaxQueryFailures-1) || !failQueries(1) {
		t.Errorf("the device is not lost after exactly %d failed queries in a row", cudalike.MaxQueryFailures)
	}
	wantError(t, err, core.ErrDeviceLost, "Done")
	_, err = s.Record()
	wantError(t, err, core.ErrDeviceLost, "Record")
}
