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
	hooks             flagHooks
	closed            bool
	signalled, waited uint64
}

// flagHooks are what one side does wrong.
type flagHooks struct {
	deaf, loud, patient bool // it waits for nothing, takes a value again, waits again
	readable, forHost   bool // Value and Wait succeed
	stuck, careless     bool // Release lets nothing go on, takes any value
	undead              bool // it signals after Close
	plain               bool // it has no Release
}

var _ core.BinarySemaphore = (*flag)(nil)

func (f *flag) fail(sentinel error, call string) error {
	return core.Errorf(sentinel, "beacon", call, "refused")
}

func (f *flag) Signal(on core.Stream, value uint64) error {
	switch {
	case f.closed && f.hooks.undead, value == f.signalled && f.hooks.loud:
		return nil
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
	case value == f.waited && f.hooks.patient:
		return nil
	case f.closed:
		return f.fail(core.ErrClosed, "WaitOn")
	case value <= f.waited || value < f.signalled:
		return f.fail(core.ErrInvalid, "WaitOn")
	}
	f.waited = value
	if f.hooks.deaf {
		return nil
	}
	return f.Semaphore.WaitOn(on, value)
}

func (f *flag) Value() (uint64, error) {
	if f.hooks.readable {
		return f.waited, nil
	}
	return 0, f.fail(core.ErrNotSupported, "Value")
}

func (f *flag) Wait(context.Context, uint64) error {
	if f.hooks.forHost {
		return nil
	}
	return f.fail(core.ErrNotSupported, "Wait")
}

func (f *flag) Release(ctx context.Context, value uint64) error {
	switch {
	case f.hooks.stuck:
		context.AfterFunc(ctx, func() { f.set(value) }) // when the case is over, for Close of the stream
		return nil
	case value != f.waited && f.hooks.careless:
		return nil
	case value != f.waited:
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

// Each fault of a binary semaphore is found by the case that uses both sides of one.
func TestSuiteFindsMutantsOfBinarySemaphores(t *testing.T) {
	const both = "export-semaphore/same-counter"
	findMutants(t, nil, []mutant[flagHooks]{
		{"waits for nothing", both, "work behind a wait is done, and nobody has signalled", flagHooks{deaf: true}},
		{"takes a value again", both, "Signal(2) once more: error <nil>", flagHooks{loud: true}},
		{"waits again", both, "WaitOn(1) once more: error <nil>", flagHooks{patient: true}},
		{"can be read", both, "Value of a binary semaphore: error <nil>", flagHooks{readable: true}},
		{"lets the host wait", both, "Wait for a binary semaphore: error <nil>", flagHooks{forHost: true}},
		{"cannot be released", both, "is not a core.BinarySemaphore", flagHooks{plain: true}},
		{"is not released", both, "Synchronize after Release", flagHooks{stuck: true}},
		{"releases any value", both, "Release of a value that this side has not waited for: error <nil>", flagHooks{careless: true}},
		{"signals after Close", both, "Signal after Close: error <nil>", flagHooks{undead: true}},
	}, func(t *testing.T, h flagHooks) (func(testing.TB) core.Device, []Options) {
		return beacons(t, core.HandleBinaryFD, importsAs(func(b *beacon, x core.ExternalSemaphore) (core.Semaphore, error) {
			s, err := b.open(x)
			if err != nil {
				return nil, err
			}
			s.(*flag).hooks = h
			if h.plain {
				return struct{ core.Semaphore }{s}, nil
			}
			return s, nil
		})), nil
	})
}
