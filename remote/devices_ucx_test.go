//go:build ucx && linux && cgo

package remote

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
)

// openAll opens every device of the build. The test closes them.
func openAll(t testing.TB) []core.Device {
	t.Helper()
	var devices []core.Device
	t.Cleanup(func() {
		for _, d := range slices.Backward(devices) {
			if err := d.Close(); err != nil {
				t.Errorf("closing %v: %v", d.ID(), err)
			}
		}
	})
	for _, b := range all.New().Backends() {
		if coretest.LeavesOut(t, b.Probe(t.Context()).Reason, "a driver for "+b.Name()) {
			continue
		}
		list, err := b.Devices(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			d, err := b.Open(t.Context(), p.ID)
			if err != nil {
				t.Fatal(err)
			}
			devices = append(devices, d)
		}
	}
	return devices
}

// on makes a tensor of n bytes with a pattern on a device.
func on(t testing.TB, d core.Device, n int, seed uint64) *core.Tensor {
	t.Helper()
	x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{int64(n)}, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	if err := d.Copy(t.Context(), nil, x, row(t, n, seed)); err != nil {
		t.Fatal(err)
	}
	return x
}

// wantWay checks that a report says how a tensor was moved, and why.
func wantWay(t testing.TB, r Report, d core.Device, n int) {
	t.Helper()
	way, copied, reason := exchange.Direct, int64(0), ""
	if !d.ID().Type.HostAccessible() {
		way, copied, reason = exchange.Staged, int64(n), "memory of the host, and the tensor"
	}
	if r.Device != d.ID() || r.Mechanism != way || r.Bytes != int64(n) || r.BytesCopied != copied ||
		(r.Reason == "") != (reason == "") || !strings.Contains(r.Reason, reason) || len(r.Transports) == 0 {
		t.Errorf("the report of %d bytes on %v is\n%v", n, d.ID(), r)
	}
}

// Any tensor of any device arrives on any device.
func TestEveryDeviceToEveryDevice(t *testing.T) {
	senders, receivers := openAll(t), openAll(t)
	a, b := connect(t, Options{})
	for _, from := range senders {
		for _, to := range receivers {
			t.Run(fmt.Sprintf("%v to %v", from.ID(), to.ID()), func(t *testing.T) {
				for i, n := range []int{1000, 100_000, 2*pieceBytes + 12_345} {
					if i == 2 && testing.Short() && from.ID().Type != core.DeviceCPU && to.ID().Type != core.DeviceCPU {
						continue // the pieces of each device are tested with the host
					}
					x := on(t, from, n, uint64(i))
					y, sent, received := pass(t, a, b, x, to)
					if string(coretest.Get(t, to, y)) != string(coretest.Pattern(n, uint64(i))) {
						t.Errorf("%d bytes differ", n)
					}
					wantWay(t, sent, from, n)
					wantWay(t, received, to, n)
				}
			})
		}
	}
}

// Peers read and write parts of offers on any device.
func TestOffersOfEveryDevice(t *testing.T) {
	devices := openAll(t)
	d := host(t)
	a, b := connect(t, Options{})
	const rows, width = 5, pieceBytes/2 + 77
	for _, on := range devices {
		t.Run(on.ID().String(), func(t *testing.T) {
			keep := coretest.Keep(t)
			x, err := core.Empty(t.Context(), on, core.TypeUint8, []int64{rows, width}, core.AllocOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			want := coretest.Pattern(rows*width, 1)
			if err := on.Copy(t.Context(), nil, x, keep(row(t, rows*width, 1).Reshape(rows, width))); err != nil {
				t.Fatal(err)
			}
			f := offer(t, a, x, OfferOptions{Writable: true})
			y, r, err := b.FetchRows(t.Context(), f.Descriptor(), 1, 5, d)
			if err != nil {
				t.Fatal(err)
			}
			defer y.Close()
			if string(coretest.Get(t, d, keep(y.Reshape(4*width)))) != string(want[width:]) {
				t.Error("the rows that were fetched differ")
			}
			wantWay(t, r, d, 4*width)
			if _, err := b.PutRows(t.Context(), f.Descriptor(), 2, keep(row(t, 3*width, 2).Reshape(3, width))); err != nil {
				t.Fatal(err)
			}
			copy(want[2*width:], coretest.Pattern(3*width, 2))
			if string(coretest.Get(t, on, keep(x.Reshape(rows*width)))) != string(want) {
				t.Error("the elements differ after rows were put")
			}
		})
	}
}
