package exchange_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// slowDevice opens a simulated device, which does its work as late as it may.
func slowDevice(t *testing.T, o coretest.Options) (*coretest.Backend, core.Device) {
	t.Helper()
	o.Submit, o.Log = stream.Submit, t.Logf
	b := coretest.NewBackend(o)
	list, err := b.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, err := b.Open(t.Context(), list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, d
}

// To does not wait for the copy; whoever then looks at the elements does.
func TestValuesOfWhatIsStillBeingCopied(t *testing.T) {
	coretest.CheckNoLeaks(t)
	h := host(t)
	for name, o := range map[string]coretest.Options{"addresses": {}, "handles": {Opaque: true}} {
		_, d := slowDevice(t, o)
		src := numbered(t, d, core.AllocOptions{}, 1000)
		defer src.Close()
		got, _ := to(t, src, h, exchange.Options{Copy: exchange.Always})
		if got.Ready() == nil {
			t.Errorf("%s: the copy is done already: this test cannot fail", name)
		}
		values, err := core.Values[int32](got)
		if err != nil {
			t.Fatal(err)
		}
		if want := read(t, d, src); !slices.Equal(values, want) {
			t.Errorf("%s: Values gives %v..., want %v...", name, values[:4], want[:4])
		}
	}
}

// A copy that fails behind To's back is found out by whoever looks.
func TestValuesOfWhatWasNotCopied(t *testing.T) {
	coretest.CheckNoLeaks(t)
	b, d := slowDevice(t, coretest.Options{})
	src := numbered(t, d, core.AllocOptions{}, 1000)
	defer src.Close()
	failure := errors.New("the copy failed")
	b.Fail("work", 1, failure)
	got, _ := to(t, src, host(t), exchange.Options{Copy: exchange.Always})
	if _, err := core.Values[int32](got); !errors.Is(err, failure) {
		t.Errorf("Values: %v", err)
	}
	if _, err := core.Mutable[int32](got); !errors.Is(err, failure) {
		t.Errorf("Mutable: %v", err)
	}
}

// pieceBytes is the size of the pieces in which copies go through the host.
const pieceBytes = 4 << 20

// The error of each piece of a copy is found, not only that of the last one.
func TestEachPieceOfACopyMayFail(t *testing.T) {
	for n := 1; ; n++ {
		b, from := slowDevice(t, coretest.Options{})
		dst, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceExt, Index: 1})
		if err != nil {
			t.Fatal(err)
		}
		src := coretest.Row(t, from, 2*pieceBytes+1, core.AllocOptions{})
		failure := errors.New("the copy failed")
		fired := b.Fail("work", n, failure)
		got, _, err := exchange.To(t.Context(), src, dst, exchange.Options{Only: exchange.Staged})
		if err == nil {
			err = got.WaitReady(t.Context())
			got.Close()
		}
		src.Close()
		if err := dst.Close(); err != nil {
			t.Error(err)
		}
		if fired() != errors.Is(err, failure) || !fired() && err != nil {
			t.Errorf("work %d failed: %v; the result's error is %v", n, fired(), err)
		}
		if !fired() {
			if n != 7 {
				t.Errorf("%d pieces of work, want two for each of three pieces", n-1)
			}
			return
		}
	}
}
