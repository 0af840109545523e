package exchange_test

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// pinnedType is what the memory of the test says that it is.
const pinnedType = core.DeviceCPU

// What [exchange.To] does is what Plan says, for memory of another type than the
// device's own too: To must not take the short way there.
func TestMemoryOfAnotherTypeOfTheDevice(t *testing.T) {
	h := host(t)
	a, _ := newFakes(t, 0, 0)
	m, err := h.Alloc(t.Context(), 64, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.ID, m.Device = core.DeviceID{Type: pinnedType}, a
	pinned, err := core.Wrap(m, core.Spec{DType: core.TypeInt32, Shape: []int64{16}})
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Close()
	for _, o := range []exchange.Options{{}, {Copy: exchange.Never}, {Alloc: core.AllocOptions{Type: pinnedType}}} {
		route, planned := exchange.Plan(pinned, a, o)
		got, report, err := exchange.To(t.Context(), pinned, a, o)
		if err == nil {
			defer got.Close()
		}
		if err != nil && planned == nil {
			t.Fatal(err)
		}
		if errors.Is(planned, core.ErrNotSupported) != errors.Is(err, core.ErrNotSupported) {
			t.Errorf("%+v: Plan fails with %v, To with %v", o, planned, err)
		}
		if route != nil && report.Mechanism != route.Mechanism {
			t.Errorf("%+v: Plan says %v, To %v", o, route.Mechanism, report.Mechanism)
		}
	}
}
