//go:build cgo

package share

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

func TestWhyADeviceDoesNotOpenWhatAnotherExports(t *testing.T) {
	exporter := PeerDevice{UUID: core.UUID{1}, DriverUUID: core.UUID{2}}
	opaque, dmaBuf := []core.HandleType{core.HandleOpaqueFD}, []core.HandleType{core.HandleDMABuf}
	for _, c := range []struct {
		d    PeerDevice
		t    core.HandleType
		want string // "" if it opens it
	}{
		{PeerDevice{}, core.HandleMemFD, "opens no memory of other processes"},
		{PeerDevice{Imports: opaque}, core.HandleMemFD, "opens memory of the types [opaque_fd], and not of mem_fd"},
		{PeerDevice{Imports: []core.HandleType{core.HandleMemFD}}, core.HandleMemFD, ""},
		{PeerDevice{Imports: opaque, UUID: core.UUID{9}}, core.HandleOpaqueFD, "another device, with the UUID 09000000-"},
		{PeerDevice{Imports: opaque, UUID: core.UUID{1}, DriverUUID: core.UUID{9}}, core.HandleOpaqueFD, "another driver, with the UUID 09000000-"},
		{PeerDevice{Imports: opaque, UUID: core.UUID{1}, DriverUUID: core.UUID{2}}, core.HandleOpaqueFD, ""},
		{PeerDevice{Imports: opaque, UUID: core.UUID{1}}, core.HandleOpaqueFD, ""},
		{PeerDevice{Imports: dmaBuf, UUID: core.UUID{1}, DriverUUID: core.UUID{9}}, core.HandleDMABuf, ""},
		{PeerDevice{Imports: dmaBuf, UUID: core.UUID{9}}, core.HandleDMABuf, "another device"},
	} {
		err := c.d.opens("the peer", &exporter, c.t, memories)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, %v: %v, want %q", c.d, c.t, err, c.want)
		}
	}
}

// stranger is a peer with one device, which receives nothing.
func stranger(t *testing.T, o Options, h hello) *Conn {
	t.Helper()
	mine, theirs := pair(t)
	c := made(t, mine, o)
	x := &intruder{t: t, socket: theirs}
	h.limits = Limits{Tensors: 4, Memories: 4, Bytes: 1 << 30}
	x.write(x.message(kindHello, 0, appendHello(nil, h)))
	return c
}

// The report of Send names what the two sides do not have in common.
func TestReportsSayWhyTheHostWaits(t *testing.T) {
	a := newCard(t)
	self := describe(a.device)
	other, older := self, self
	other.SemaphoreImports = []core.HandleType{core.HandleBinaryFD}
	none := self
	none.SemaphoreImports = nil
	for _, c := range []struct {
		name string
		own  Options
		peer hello
		want string
	}{
		{"an older peer", a.options(), hello{devices: []PeerDevice{older}}, "version of dlx does not wait for semaphores"},
		{"nothing here exports", of(a.device), hello{features: featureOrder, devices: []PeerDevice{self}}, "no device of this process exports semaphores"},
		{"nothing there opens", a.options(), hello{features: featureOrder, devices: []PeerDevice{none}}, "no semaphore in common: cuda:0 of the peer opens no semaphores"},
		{"other types", a.options(), hello{features: featureOrder, devices: []PeerDevice{other}}, "no semaphore in common: cuda:0 of the peer opens semaphores of the types [binary_fd], and not of opaque_fd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := stranger(t, c.own, c.peer)
			w, x := begun(t, a), onCard(t, a.device, opaqueFD)
			if err := w.write(t.Context(), x, 1); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			r, err := conn.Send(ctx, x)
			if !errors.Is(err, context.DeadlineExceeded) || r.Wait != stream.HostWait {
				t.Errorf("%v, %v", r, err)
			}
			if !strings.Contains(r.String(), c.want) {
				t.Errorf("the report does not say %q: %v", c.want, r)
			}
		})
	}
}

// So it does for memory.
func TestReportsSayWhyMemoryIsCopied(t *testing.T) {
	a, d := newCard(t), host(t)
	other := describe(a.device)
	other.UUID = core.UUID{9}
	conn := stranger(t, of(a.device, d), hello{devices: []PeerDevice{other, describe(d)}})
	r := send(t, conn, onCard(t, a.device, opaqueFD))
	if r.BytesCopied == 0 || !strings.Contains(r.String(), "cuda:0 of the peer is another device, with the UUID 09000000-") ||
		!strings.Contains(r.String(), "cpu of the peer opens memory of the types [mem_fd], and not of opaque_fd") {
		t.Errorf("%v", r)
	}
}
