package exchange_test

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

func TestAllocFor(t *testing.T) {
	h := host(t)
	visible, export := core.AllocOptions{HostVisible: true}, core.AllocOptions{Export: handleType}
	for _, c := range []struct {
		name     string
		from, to core.Capabilities
		toHost   bool
		other    bool // hardware
		want     core.AllocOptions
	}{
		{name: "memory that can be imported", from: exports | hostView, to: imports | mapHost, want: export},
		{name: "memory that can be imported, of other hardware", from: exports | hostView, to: imports | mapHost, other: true, want: visible},
		{name: "memory that can be viewed and mapped", from: hostView, to: mapHost, want: visible},
		{name: "memory that can be viewed, not mapped", from: hostView},
		{name: "memory that the host views", from: hostView | exports, toHost: true, want: visible},
		{name: "memory that the host cannot view", from: exports, toHost: true},
		{name: "nothing helps", to: imports | mapHost},
	} {
		a, b := newFakes(t, c.from, c.to)
		if c.other {
			b.properties.UUID = core.UUID{9}
		}
		next := core.Device(b)
		if c.toHost {
			next = h
		}
		got := exchange.AllocFor(a, next)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if got != (core.AllocOptions{}) { // and then it is shared
			src := numbered(t, a, got, 16)
			to(t, src, next, exchange.Options{Copy: exchange.Never})
			_ = src.Close()
		}
	}
	a, _ := newFakes(t, exports|hostView, 0)
	for _, pair := range [][2]core.Device{{a, a}, {h, a}, {nil, a}, {a, nil}} {
		if got := exchange.AllocFor(pair[0], pair[1]); got != (core.AllocOptions{}) {
			t.Errorf("from %v to %v: %+v", pair[0], pair[1], got)
		}
	}
}

// An importer refuses a dma-buf of a device with another UUID.
func TestADMABufIsForItsOwnDevice(t *testing.T) {
	a, b := newFakes(t, exports, imports)
	a.types, b.types = []core.HandleType{core.HandleDMABuf}, []core.HandleType{core.HandleDMABuf}
	for _, c := range []struct {
		of, to core.UUID
		want   core.HandleType
	}{{core.UUID{1}, core.UUID{1}, core.HandleDMABuf}, {core.UUID{1}, core.UUID{2}, 0}, {core.UUID{}, core.UUID{2}, core.HandleDMABuf}} {
		a.properties.UUID, b.properties.UUID = c.of, c.to
		if got := exchange.AllocFor(a, b).Export; got != c.want {
			t.Errorf("from UUID %v to %v: export as %v, want %v", c.of, c.to, got, c.want)
		}
	}
}
