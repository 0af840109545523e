package metal_test

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/backends/metal"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// In every build the functions exist, refuse what is not Metal's, and say why.
func TestTheAPIRefusesWhatIsNotOfMetal(t *testing.T) {
	d, err := coretest.NewBackend(coretest.Options{}).Open(t.Context(), core.DeviceID{Type: core.DeviceExt})
	if err != nil {
		t.Fatal(err)
	}
	x, err := core.FromSlice([]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := metal.DeviceOf(d)
	_, _, err2 := metal.BufferOf(x)
	_, _, err3 := metal.EventOf(nil)
	_, err4 := metal.SharedEventOf(nil)
	_, err5 := metal.ImportSharedEvent(d, 1)
	for i, err := range []error{err1, err2, err3, err4, err5} {
		var typed *core.Error
		if !errors.As(err, &typed) || typed.Backend != "metal" || !errors.Is(err, core.ErrNotSupported) && !errors.Is(err, core.ErrDevice) {
			t.Errorf("function %d: %v", i, err)
		}
	}
	if err := errors.Join(x.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	b := metal.New()
	if p := b.Probe(t.Context()); b.Name() != "metal" || !p.Available && p.Reason == "" {
		t.Errorf("%s: %+v", b.Name(), p)
	}
}
