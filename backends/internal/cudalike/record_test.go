package cudalike_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/core"
)

// A stream may wait for something between a copy of another goroutine and the event of that copy. An event that is
// recorded afterwards stands for the wait, too.
func TestAnEventAfterAWaitStandsForIt(t *testing.T) {
	f := newFake("waits")
	d := open(t, cudalike.New(f, cudalike.Facts{
		API: "waits", Device: core.DeviceMAIA, Host: core.DeviceROCMHost, ClockStep: time.Microsecond, Kernels: kernels, Limits: gpucopy.CUDALimits(),
	}), 0)
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	s, err := d.NewStream(t.Context())
	must(err)
	late, err := d.NewStream(t.Context())
	must(err)
	gate := make(chan struct{})
	must(fakeContext{fake: f}.stream(late.Native()).Enqueue(func() error { <-gate; return nil }))
	e, err := late.Record()
	must(err)
	copied, err := cudalike.SubmitAround(s, func() error { return s.Wait(e) })
	must(err, copied.Wait(t.Context())) // of the copy alone
	after, err := s.Record()
	must(err)
	if done, _ := after.Done(); done {
		t.Error("an event is done, and the stream waits for another one")
	}
	close(gate)
	must(after.Wait(t.Context()), s.Close(), late.Close(), d.Close())
}
