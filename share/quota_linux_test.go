package share

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// limited makes a connection that counts for its user. The test closes both.
func limited(t testing.TB, q *quotas, mine *net.UnixConn, o Options) *Conn {
	t.Helper()
	c, err := newConn(mine, o, q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// quotasOf returns what users may have, and checks at the end of the test that nobody has anything.
func quotasOf(t testing.TB, l UserLimits) *quotas {
	t.Helper()
	l, err := l.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	q := newQuotas(l)
	t.Cleanup(func() { // after those of the connections
		if len(q.users) > 0 {
			t.Errorf("%d users have something", len(q.users))
		}
	})
	return q
}

// wantOver fails unless a connection has ended because of the limit that text names.
func wantOver(t testing.TB, c *Conn, text string) {
	t.Helper()
	<-c.ended
	if err := c.Err(); !errors.Is(err, core.ErrOutOfMemory) || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "raise the limits for each user") {
		t.Errorf("error %v, want one about %s", err, text)
	}
}

// A process that connects too often is refused, and told why. The end of a connection makes room.
func TestUserLimitOfConnections(t *testing.T) {
	coretest.CheckNoLeaks(t)
	path := filepath.Join(t.TempDir(), "socket")
	l, err := Listen(path, Options{UserLimits: UserLimits{Connections: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan *Conn, 2)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept(t.Context())
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	refused := core.ReadMetrics().Share.Refused
	dial := func() (mine, theirs *Conn) {
		t.Helper()
		c, err := Dial(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c, <-accepted
	}
	a, b := dial()
	c, d := dial()
	for range 3 {
		_, err := Dial(t.Context(), path, Options{})
		if !errors.Is(err, core.ErrOutOfMemory) || !errors.As(err, new(*ConnError)) || !strings.Contains(err.Error(), "2 connections together, and may have 2") {
			t.Errorf("a third connection: %v", err)
		}
	}
	if n := core.ReadMetrics().Share.Refused - refused; n != 3 {
		t.Errorf("%d refusals are counted", n)
	}
	_ = c.Close()
	<-d.ended
	e, f := dial()
	for _, x := range []*Conn{a, b, e, f} {
		_ = x.Close()
	}
	_ = l.Close()
	if err := <-ended; !errors.Is(err, core.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	if len(l.quotas.users) > 0 {
		t.Errorf("%d users have something", len(l.quotas.users))
	}
}

// What a user passes counts for all its connections together, until it is taken back. Other connections
// of the user go on.
func TestUserLimitOfBytes(t *testing.T) {
	coretest.CheckNoLeaks(t)
	d := host(t)
	q := quotasOf(t, UserLimits{Bytes: 3 * 4096})
	connect := func() (mine, theirs *Conn) {
		x, y := pair(t)
		return made(t, x, of(d)), limited(t, q, y, of(d))
	}
	a, b := connect()
	c, e := connect()
	tensor := func() *core.Tensor { return shareable(t, d, 2048, core.AllocOptions{Export: core.HandleMemFD}) } // two pages
	first := tensor()
	send(t, a, first)
	got, _ := receive(t, b, nil)
	if _, err := c.Send(t.Context(), tensor()); err != nil && !errors.Is(err, core.ErrOutOfMemory) { // the peer may end it at once
		t.Error(err)
	}
	wantOver(t, c, "bytes of memory")
	wantOver(t, e, "bytes of memory")
	// The first connection goes on, and makes room when its memory is freed.
	_ = got.Close()
	if err := a.WaitReleased(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	publish(t, a, Ring{Slots: 1, Mode: Queue}) // after the end of the memory: two pages
	subscribe(t, b, SubscribeOptions{})
	f, g := connect()
	publishTooMuch(t, f)
	wantOver(t, g, "bytes of memory")
	if err := b.Err(); err != nil {
		t.Error(err)
	}
}

// publishTooMuch publishes a ring for which there is no room. The end of the connection may come sooner than
// the result.
func publishTooMuch(t testing.TB, c *Conn) {
	t.Helper()
	p, err := c.Publish(t.Context(), "frames", Ring{Slots: 1, Shape: []int64{1}, DType: core.TypeUint8, Mode: Queue})
	if err != nil && !errors.Is(err, core.ErrOutOfMemory) {
		t.Fatal(err)
	}
	_ = p.Close()
}

// Connections, memories and rings count as descriptors, and the end of a connection gives all back.
func TestUserLimitOfDescriptors(t *testing.T) {
	coretest.CheckNoLeaks(t)
	d := host(t)
	q := quotasOf(t, UserLimits{Descriptors: 4})
	x, y := pair(t)
	a, b := made(t, x, of(d)), limited(t, q, y, of(d))
	for range 3 {
		send(t, a, shareable(t, d, 16, core.AllocOptions{Export: core.HandleMemFD}))
	}
	for range 3 {
		receive(t, b, nil)
	}
	mine, theirs := pair(t)
	if c, err := newConn(mine, of(d), q); !errors.Is(err, core.ErrOutOfMemory) {
		_ = c.Close()
		t.Errorf("a connection more: %v", err)
	}
	_ = theirs.Close()
	publishTooMuch(t, a)
	wantOver(t, b, "connections, memories, rings and semaphores")
	x, y = pair(t)
	made(t, x, of(d))
	limited(t, q, y, of(d))
}

func TestUserLimitsThatCannotBe(t *testing.T) {
	for _, l := range []UserLimits{{Connections: -1}, {Descriptors: -1}, {Bytes: -1}} {
		if _, err := Listen(filepath.Join(t.TempDir(), "socket"), Options{UserLimits: l}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
