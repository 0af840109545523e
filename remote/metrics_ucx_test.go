//go:build ucx && linux && cgo

package remote

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

func count(list []core.RemoteCount, name string) int64 {
	for _, e := range list {
		if e.Name == name {
			return e.Count
		}
	}
	return 0
}

// Connections, requests, offers and leases count while they are open, and after their end.
func TestMetrics(t *testing.T) {
	before := core.ReadMetrics().Remote
	token := Options{Token: []byte("0123456789abcdef")}
	l, err := Listen("127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if c, err := Dial(t.Context(), l.Addr().String(), Options{Token: []byte("another token....")}); err == nil {
		_ = c.Close()
		t.Fatal("another token was accepted")
	}
	b, err := Dial(t.Context(), l.Addr().String(), token)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	a, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	x := row(t, 100, 1)
	f := offer(t, a, x, OfferOptions{})
	y, r, err := b.Fetch(t.Context(), f.Descriptor(), host(t))
	if err != nil {
		t.Fatal(err)
	}
	y.Close()
	short := offer(t, a, x, OfferOptions{Lease: time.Nanosecond})
	<-short.Done()
	if _, _, err := b.Fetch(t.Context(), short.Descriptor(), host(t)); !errors.Is(err, core.ErrClosed) {
		t.Errorf("after the lease: %v", err)
	}
	pass(t, a, b, x, host(t))
	if err := a.WaitReceived(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(func() bool { // both are counted after the answer
		return a.Stats().Served > 0 && core.ReadMetrics().Remote.Refused > before.Refused
	})
	check := func(when string, open, offers int64) {
		t.Helper()
		m := core.ReadMetrics().Remote
		for name, n := range map[string][2]int64{
			"connections": {m.Connections - before.Connections, 2}, "refused": {m.Refused - before.Refused, 1}, "open": {m.OpenConnections() - before.OpenConnections(), open},
			"sent": {m.Sent - before.Sent, 1}, "received": {m.Received - before.Received, 1}, "bytes sent": {m.BytesSent - before.BytesSent, 200}, "bytes received": {m.BytesReceived - before.BytesReceived, 200},
			"served": {m.Served - before.Served, 1}, "requests refused": {m.RequestsRefused - before.RequestsRefused, 1}, "leases": {m.Leases - before.Leases, 1}, "offers": {m.Offers - before.Offers, offers},
			"in flight": {m.InFlight - before.InFlight, 0}, "waiting": {m.Waiting - before.Waiting, 0},
		} {
			if n[0] != n[1] {
				t.Errorf("%s: %s rose by %d, want %d", when, name, n[0], n[1])
			}
		}
		for _, name := range r.Transports {
			if got := count(m.Transports, name) - count(before.Transports, name); got != 2 {
				t.Errorf("%s: %d connections by %s, want 2", when, got, name)
			}
		}
	}
	check("open", 2, 1)
	_ = a.Close()
	<-b.Done()
	_ = b.Close()
	check("ended", 0, 0)
	m := core.ReadMetrics().Remote
	for _, reason := range []string{"closed", "closed_by_peer"} {
		if got := count(m.Ended, reason) - count(before.Ended, reason); got != 1 {
			t.Errorf("%d connections have ended by %q, want 1: %+v", got, reason, m.Ended)
		}
	}
}

// Each kind of end has a name.
func TestEndNames(t *testing.T) {
	o := Options{}
	for want, err := range map[string]error{
		"closed": errClosedHere, "closed_by_peer": o.told(goodbye{reason: reasonClosed}), "peer_ended": o.lost(io.EOF), "silent": o.lost(os.ErrDeadlineExceeded),
		"version": o.told(goodbye{reason: reasonVersion}), "rule_broken": violation("x"), "stalled": o.told(goodbye{reason: reasonStalled}), "other": o.lost(errors.New("a strange error")),
	} {
		if got := endName(&ConnError{Err: err}); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
	for err, want := range map[error]string{ // what the other side says when it is told
		errClosedHere: "closed_by_peer", o.lost(os.ErrDeadlineExceeded): "silent", o.lost(io.EOF): "peer_ended", ended(errStalled, "x"): "stalled",
		violation("x"): "rule_broken", core.Errorf(core.ErrVersion, "", "", "x"): "version",
	} {
		if got := endName(&ConnError{Err: o.told(farewell(err))}); got != want {
			t.Errorf("the other side of %v is %q, want %q", err, got, want)
		}
	}
}
