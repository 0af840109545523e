//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/core"
)

// wantAccess fails the test unless the given device has access to mapped memory, or has none.
func wantAccess(t *testing.T, x *core.Tensor, of core.Device, want bool) {
	t.Helper()
	if has := contextOf(t, x.Device()).HasAccess(of.ID().Index, addressOf(t, x)); has != want {
		t.Errorf("%v has access to %v: %v, want %v", of.ID(), x, has, want)
	}
}

func contextOf(t *testing.T, d core.Device) cudalike.Context { return libraryOf(t, d).context }

// Exported memory is mapped for its own device, and for a peer when that copies.
func TestAPeerHasAccessToExportedMemoryOnceItCopies(t *testing.T) {
	sim := simulator(t)
	d, p := peers(t)
	for _, h := range []core.HandleType{core.HandleOpaqueFD, core.HandleDMABuf} {
		calls := sim.Count("cuMemSetAccess")
		dst, src := row(t, d, 6000, core.AllocOptions{Export: h}), row(t, p, 6000, core.AllocOptions{Export: h})
		there := src
		if h == core.HandleOpaqueFD { // an import is the same
			m, err := p.(core.MemoryExporter).ExportMemory(buffer(t, src), h)
			if err != nil {
				t.Fatal(err)
			}
			there = imported(t, p, m)
			calls++
		}
		if n := sim.Count("cuMemSetAccess") - calls; n != 2 {
			t.Errorf("%v: access was given %d times, want once for each device", h, n)
		}
		wantAccess(t, dst, d, true)
		wantAccess(t, dst, p, false)
		wantAccess(t, there, d, false)
		put(t, p, src, pattern(6000, 3))
		for range 2 {
			if err := d.(core.PeerCopier).CopyPeer(t.Context(), nil, dst, there, p); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(get(t, d, dst), pattern(6000, 3)) {
			t.Errorf("%v: wrong bytes", h)
		}
		wantAccess(t, dst, p, true)
		wantAccess(t, there, d, true)
		if n := sim.Count("cuMemSetAccess") - calls; n != 4 {
			t.Errorf("%v: access was given %d times, want twice for each device", h, n)
		}
	}
}

// A driver that gives access may wait for all work, and so for a value that nobody may have signalled yet.
func TestNoAccessIsGivenWhileAStreamWaitsForASemaphore(t *testing.T) {
	sim := simulator(t)
	d, p := peers(t)
	held, s := newStream(t, d), newStream(t, d)
	dst, src := row(t, d, 6000, core.AllocOptions{Export: core.HandleOpaqueFD}), row(t, p, 6000, core.AllocOptions{})
	put(t, p, src, pattern(6000, 4))
	release := hold(t, held)
	defer release()
	calls := sim.Count("cuMemSetAccess")
	copies := func() {
		t.Helper()
		if err := d.(core.PeerCopier).CopyPeer(t.Context(), s, dst, src, p); err != nil {
			t.Fatal(err)
		}
		if err := s.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	copies()
	if n := sim.Count("cuMemSetAccess"); n != calls {
		t.Error("access was given while a stream waits")
	}
	if !bytes.Equal(get(t, d, dst), pattern(6000, 4)) {
		t.Error("wrong bytes")
	}
	release()
	if err := held.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	copies()
	wantAccess(t, dst, p, true)
}

func TestAccessThatTheDriverRefusesFailsTheCopy(t *testing.T) {
	sim := simulator(t)
	d, p := peers(t)
	dst, src := row(t, d, 100, core.AllocOptions{Export: core.HandleOpaqueFD}), row(t, p, 100, core.AllocOptions{})
	for _, call := range []string{"cuMemSetAccess", "cuDeviceCanAccessPeer", "cuCtxEnablePeerAccess"} {
		sim.Fail(call, 1, 0)
		wantError(t, d.(core.PeerCopier).CopyPeer(t.Context(), nil, dst, src, p), core.ErrInvalid, "a peer copy without "+call)
	}
	if err := d.(core.PeerCopier).CopyPeer(t.Context(), nil, dst, src, p); err != nil {
		t.Error(err)
	}
}
