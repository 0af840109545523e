//go:build unix

package backendtest

import (
	"context"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// flag is one side of a simulated binary semaphore, over a counter that both sides have.
type flag struct {
	core.Semaphore
	closed            bool
	signalled, waited uint64
}

var _ core.BinarySemaphore = (*flag)(nil)

func (f *flag) fail(sentinel error, call string) error {
	return core.Errorf(sentinel, "beacon", call, "refused")
}

func (f *flag) Signal(on core.Stream, value uint64) error {
	switch {
	case f.closed:
		return f.fail(core.ErrClosed, "Signal")
	case value <= max(f.signalled, f.waited):
		return f.fail(core.ErrInvalid, "Signal")
	}
	f.signalled = value
	return f.Semaphore.Signal(on, value)
}

func (f *flag) WaitOn(on core.Stream, value uint64) error {
	switch {
	case f.closed:
		return f.fail(core.ErrClosed, "WaitOn")
	case value <= f.waited || value < f.signalled:
		return f.fail(core.ErrInvalid, "WaitOn")
	}
	f.waited = value
	return f.Semaphore.WaitOn(on, value)
}

func (f *flag) Value() (uint64, error) { return 0, f.fail(core.ErrNotSupported, "Value") }

func (f *flag) Wait(context.Context, uint64) error { return f.fail(core.ErrNotSupported, "Wait") }

func (f *flag) Release(_ context.Context, value uint64) error {
	if value != f.waited {
		return f.fail(core.ErrInvalid, "Release")
	}
	f.set(value)
	return nil
}

// set raises the counter to value.
func (f *flag) set(value uint64) {
	counter := f.Semaphore
	if b, ok := counter.(borrowed); ok {
		counter = b.Semaphore
	}
	counter.(*timeline).Semaphore.(interface{ Set(uint64) }).Set(value)
}

func (f *flag) Close() error {
	f.closed = true
	return f.Semaphore.Close()
}

// These are imported binary semaphores with one fault each.
type (
	deafFlag     struct{ *flag } // waits for nothing
	loudFlag     struct{ *flag } // takes a value again
	patientFlag  struct{ *flag } // waits again
	readableFlag struct{ *flag }
	hostFlag     struct{ *flag } // lets the host wait
	stuckFlag    struct{ *flag } // never goes on
	carelessFlag struct{ *flag } // releases any value
	undeadFlag   struct{ *flag } // signals after Close
	unreleasable struct{ core.Semaphore }
)

func (f deafFlag) WaitOn(_ core.Stream, value uint64) error {
	if value <= f.waited || value < f.signalled {
		return f.fail(core.ErrInvalid, "WaitOn")
	}
	f.waited = value
	return nil
}

func (f loudFlag) Signal(on core.Stream, value uint64) error {
	if value == f.signalled {
		return nil
	}
	return f.flag.Signal(on, value)
}

func (f patientFlag) WaitOn(on core.Stream, value uint64) error {
	if value == f.waited {
		return nil
	}
	return f.flag.WaitOn(on, value)
}

func (f readableFlag) Value() (uint64, error) { return f.waited, nil }

func (hostFlag) Wait(context.Context, uint64) error { return nil }

// Release lets the stream go on when the case is over, for its Close.
func (f stuckFlag) Release(ctx context.Context, value uint64) error {
	context.AfterFunc(ctx, func() { f.set(value) })
	return nil
}

func (f carelessFlag) Release(ctx context.Context, value uint64) error {
	if value != f.waited {
		return nil
	}
	return f.flag.Release(ctx, value)
}

func (f undeadFlag) Signal(on core.Stream, value uint64) error {
	if f.closed {
		return nil
	}
	return f.flag.Signal(on, value)
}

// Each fault of a binary semaphore is found by the case that uses both sides of one.
func TestSuiteFindsMutantsOfBinarySemaphores(t *testing.T) {
	for _, m := range []struct {
		name  string
		fault func(*flag) core.Semaphore
		says  string
	}{
		{"waits for nothing", func(f *flag) core.Semaphore { return deafFlag{f} }, "work behind a wait is done, and nobody has signalled"},
		{"takes a value again", func(f *flag) core.Semaphore { return loudFlag{f} }, "Signal(2) once more: error <nil>"},
		{"waits again", func(f *flag) core.Semaphore { return patientFlag{f} }, "WaitOn(1) once more: error <nil>"},
		{"can be read", func(f *flag) core.Semaphore { return readableFlag{f} }, "Value of a binary semaphore: error <nil>"},
		{"lets the host wait", func(f *flag) core.Semaphore { return hostFlag{f} }, "Wait for a binary semaphore: error <nil>"},
		{"cannot be released", func(f *flag) core.Semaphore { return unreleasable{f} }, "is not a core.BinarySemaphore"},
		{"is not released", func(f *flag) core.Semaphore { return stuckFlag{f} }, "Synchronize after Release"},
		{"releases any value", func(f *flag) core.Semaphore { return carelessFlag{f} }, "Release of a value that this side has not waited for: error <nil>"},
		{"signals after Close", func(f *flag) core.Semaphore { return undeadFlag{f} }, "Signal after Close: error <nil>"},
	} {
		t.Run(m.name, func(t *testing.T) {
			device, release := beacons(t, core.HandleBinaryFD, beaconHooks{open: func(b *beacon, _ context.Context, x core.ExternalSemaphore) (core.Semaphore, error) {
				s, err := b.open(x)
				if err != nil {
					return nil, err
				}
				return m.fault(s.(*flag)), nil
			}})
			defer release()
			wantFailure(t, "export-semaphore/same-counter", m.says, device)
		})
	}
}
