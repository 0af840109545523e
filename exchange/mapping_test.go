package exchange_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// readOnlyHost is host memory that is marked as read-only, as tensorfile marks a mapped file.
func readOnlyHost(t *testing.T, values []int32) *core.Tensor {
	t.Helper()
	base := slice(t, values)
	m := core.Memory{ID: core.CPU, Handle: address(t, base), Size: int64(4 * len(values)), ReadOnly: true}
	x, err := core.Wrap(m, core.Spec{DType: core.TypeInt32, Shape: []int64{int64(len(values))}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

// The plan knows that a device does not map such memory, and says so before anything was tried.
func TestReadOnlyMemoryIsCopiedByPlan(t *testing.T) {
	const reason = "read-only: the device maps only memory that the host can write"
	a, _ := newFakes(t, mapHost, 0)
	values := make([]int32, 64)
	values[63] = 9
	x := readOnlyHost(t, values)
	route, err := exchange.Plan(x, a, exchange.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if text := route.String(); !strings.Contains(text, reason) || route.Mechanism != exchange.Direct {
		t.Errorf("the plan is %v, and does not say why: %s", route.Mechanism, text)
	}
	got, report := to(t, x, a, exchange.Options{})
	check(t, report, 256, way{exchange.Direct, 1, "ext_dev:0 copies from cpu", reason})
	if have := read(t, a, got); have[63] != 9 || a.called("MapHost") != 0 {
		t.Errorf("the result holds %v; MapHost was called %d times", have, a.called("MapHost"))
	}
	_, _, err = exchange.To(t.Context(), x, a, exchange.Options{Copy: exchange.Never})
	wantNoWay(t, err, reason)
}

// A device that shares the memory by its address has it read-only, too, and passes that on.
func TestReadOnlyMemoryStaysSo(t *testing.T) {
	h := host(t)
	a, _ := newFakes(t, mapHost, 0)
	x := readOnlyHost(t, make([]int32, 64))
	onHost, report := to(t, x, h, exchange.Options{})
	check(t, report, 256, way{mechanism: exchange.Alias})
	b, err := onHost.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	if !b.Memory().ReadOnly || !onHost.ReadOnly() {
		t.Errorf("the alias has memory %+v", b.Memory())
	}
	if _, err := a.Device.MapHost(t.Context(), b); !errors.Is(err, core.ErrReadOnly) {
		t.Errorf("MapHost of the alias: %v", err)
	}
}

// A driver may refuse memory that another device of the same hardware has mapped. The move then copies, and says so.
func TestASecondMappingThatFailsIsACopy(t *testing.T) {
	h := host(t)
	a, b := newFakes(t, mapHost, mapHost)
	x := numbered(t, h, core.AllocOptions{}, 64)
	defer x.Close()
	first, report := to(t, x, a, exchange.Options{})
	check(t, report, 256, way{mechanism: exchange.Map})
	b.fail("MapHost", core.ErrInvalid)
	second, report := to(t, x, b, exchange.Options{})
	check(t, report, 256, way{exchange.Direct, 1, "ext_dev:1 copies from cpu", "fake: MapHost: invalid argument"})
	if want := read(t, a, first); !slices.Equal(read(t, b, second), want) || want[63] != 63 {
		t.Errorf("the devices have %v and %v", want, read(t, b, second))
	}
	_, _, err := exchange.To(t.Context(), x, b, exchange.Options{Copy: exchange.Never})
	wantNoWay(t, err, "fake: MapHost: invalid argument")
	b.fail("MapHost", nil)
	_, report = to(t, x, b, exchange.Options{})
	check(t, report, 256, way{mechanism: exchange.Map})
}

// Memory of a device that the host views, and pinned memory, are not memory of the host to every driver.
func TestMemoryOfAnOriginThatADeviceDoesNotMap(t *testing.T) {
	const reason = "it is memory of another device"
	a, b := newFakes(t, hostView, mapHost)
	b.refuses = func(m core.Memory) error {
		if m.OriginType() != core.DeviceCPU {
			return core.Errorf(core.ErrNotSupported, "fake", "MapHost", reason)
		}
		return nil
	}
	if got := exchange.AllocFor(a, b); got != (core.AllocOptions{}) {
		t.Errorf("AllocFor gives %+v, and that does not help", got)
	}
	visible := numbered(t, a, core.AllocOptions{HostVisible: true}, 64)
	defer visible.Close()
	_, report := to(t, visible, b, exchange.Options{})
	check(t, report, 256, way{exchange.Direct, 1, "the host views memory of ext_dev:0, ext_dev:1 copies from there", reason})

	base := slice(t, make([]int32, 64))
	pinned, err := core.Wrap(core.Memory{ID: core.DeviceID{Type: core.DeviceCUDAHost}, Handle: address(t, base), Size: 256}, core.Spec{DType: core.TypeInt32, Shape: []int64{64}})
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Close()
	route, err := exchange.Plan(pinned, b, exchange.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if text := route.String(); !strings.Contains(text, reason) || route.Mechanism != exchange.Direct {
		t.Errorf("the plan is %v, and does not say why: %s", route.Mechanism, text)
	}
	_, report = to(t, base, b, exchange.Options{})
	check(t, report, 256, way{mechanism: exchange.Map})
	if b.called("MapHost") != 1 {
		t.Errorf("MapHost was called %d times", b.called("MapHost"))
	}
}

// The host's tensor on memory of a device says whose memory it is, for devices that map it later.
func TestTheHostsTensorHasTheOriginOfItsMemory(t *testing.T) {
	h := host(t)
	a, _ := newFakes(t, hostView, 0)
	visible := numbered(t, a, core.AllocOptions{HostVisible: true}, 64)
	defer visible.Close()
	onHost, report := to(t, visible, h, exchange.Options{Copy: exchange.Never})
	check(t, report, 256, way{mechanism: exchange.Map})
	b, err := onHost.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Memory().OriginType(); got != core.DeviceExt {
		t.Errorf("the origin is %v", got)
	}
}
