//go:build ucx && linux && cgo

package remote

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// A peer that closes the connection as soon as it has the elements is counted with all of them, also those that come by
// pieces and from a device.
func TestTheLastRequestCounts(t *testing.T) {
	d := host(t)
	simulated := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Opaque: true})
	for _, size := range []int{100, 100_000, 3*pieceBytes + 7} {
		l, err := Listen("127.0.0.1:0", insecure)
		if err != nil {
			t.Fatal(err)
		}
		x := row(t, size, 1)
		onDevice, _, err := exchange.To(t.Context(), x, simulated, exchange.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range coretest.Times(2, 20, 100) {
			from := []*core.Tensor{x, onDevice}[i%2]
			f, err := l.Offer(from, OfferOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c, err := Dial(t.Context(), l.Addr().String(), insecure)
			if err != nil {
				t.Fatal(err)
			}
			var offering *Conn
			accept := func() {
				if offering, err = l.Accept(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if i%3 != 1 {
				accept()
			}
			y, _, err := c.Fetch(t.Context(), f.Descriptor(), d)
			_ = c.Close()
			if err != nil {
				t.Fatal(err)
			}
			if i%3 == 1 { // which also returns a connection that has ended
				accept()
			}
			<-offering.Done()
			_ = offering.Close()
			wantEqual(t, x, y)
			_ = y.Close()
			if s := offering.Stats(); s.Served != 1 || s.BytesSent != int64(size) || s.Refused != 0 {
				t.Errorf("after a Fetch of %d bytes on %v: %+v", size, from.DeviceID(), s)
			}
			_ = f.Close()
		}
		_ = onDevice.Close()
		_ = l.Close()
	}
}
