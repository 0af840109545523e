package share

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// frames returns the part of the stats that is of rings.
func frames(c *Conn) Stats {
	s := c.Stats()
	return Stats{
		FramesSent: s.FramesSent, FramesReleased: s.FramesReleased, FramesReceived: s.FramesReceived, FramesDropped: s.FramesDropped,
		FrameBytesSent: s.FrameBytesSent, FrameBytesReceived: s.FrameBytesReceived, LoanWaits: s.LoanWaits, ReceiveWaits: s.ReceiveWaits,
		FramesInFlight: s.FramesInFlight, FramesHeld: s.FramesHeld, BytesCopied: s.BytesCopied,
	}
}

// wantFrames fails unless both sides have counted what they should.
func wantFrames(t testing.TB, when string, a, b *Conn, sent, received Stats) {
	t.Helper()
	if got := frames(a); got != sent {
		t.Errorf("%s: the publisher has counted %+v, want %+v", when, got, sent)
	}
	if got := frames(b); got != received {
		t.Errorf("%s: the subscriber has counted %+v, want %+v", when, got, received)
	}
}

// Each side counts the frames of a queue: those for nobody do not count, and each subscription counts.
func TestStatsOfAQueue(t *testing.T) {
	coretest.CheckNoLeaks(t)
	before := core.ReadMetrics().Share
	a, b := connected(t, Options{}, Options{})
	p := publish(t, a, Ring{Slots: 3, Mode: Queue})
	put(t, p, 1)
	wantFrames(t, "a frame for nobody", a, b, Stats{}, Stats{})
	s := subscribe(t, b, SubscribeOptions{})
	for n := range uint64(3) {
		put(t, p, n)
	}
	held := get(t, s, 2, 0)
	get(t, s, 3, 1).Release()
	wantFrames(t, "one held, one waiting", a, b,
		Stats{FramesSent: 3, FramesReleased: 1, FramesInFlight: 2, FrameBytesSent: 3 * 128},
		Stats{FramesReceived: 2, FramesHeld: 1, FrameBytesReceived: 2 * 128})
	put(t, p, 3)
	for range 2 { // a call that begins again counts once
		if _, err := p.Loan(briefly(t)); err == nil {
			t.Error("a slot was loaned while the subscriber needs all")
		}
	}
	held.Release()
	get(t, s, 4, 2).Release()
	get(t, s, 5, 3).Release()
	for range 2 {
		_, err := s.Receive(briefly(t))
		wantBlocked(t, "no frame", err)
	}
	// Another subscription of the same connection leaves, and has not received its frame.
	other := subscribe(t, b, SubscribeOptions{})
	put(t, p, 4)
	_ = other.Close()
	get(t, s, 6, 4).Release()
	if err := p.WaitReleased(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := Stats{FramesSent: 6, FramesReleased: 6, FrameBytesSent: 6 * 128, LoanWaits: 1}
	received := Stats{FramesReceived: 5, FrameBytesReceived: 5 * 128, ReceiveWaits: 1}
	wantFrames(t, "all released", a, b, sent, received)
	// The end of the ring and of the subscriptions keeps the counts, and so does that of the connection.
	put(t, p, 5)
	held = get(t, s, 7, 5)
	sent.FramesSent, sent.FrameBytesSent, received.FramesReceived, received.FrameBytesReceived = 7, 7*128, 6, 6*128
	_ = p.Close()
	_ = s.Close()
	received.FramesHeld = 1
	wantFrames(t, "ring ended", a, b, sent, received)
	_ = a.Close()
	<-b.ended
	received.FramesHeld = 0
	wantFrames(t, "connection ended", a, b, sent, received)
	held.Release()
	wantFrames(t, "released afterwards", a, b, sent, received)
	now := core.ReadMetrics().Share
	if n := now.FramesSent - before.FramesSent; n != 7 {
		t.Errorf("the metrics have %d frames sent, want 7", n)
	}
	if now.FramesInFlight != before.FramesInFlight || now.FramesHeld != before.FramesHeld || now.LoanWaits-before.LoanWaits != 1 ||
		now.ReceiveWaits-before.ReceiveWaits != 1 || now.FrameBytesReceived-before.FrameBytesReceived != 6*128 {
		t.Errorf("the metrics are %+v, before %+v", now, before)
	}
}

// A ring of two connections counts for both. A wait counts for the one that needs a slot.
func TestStatsOfTheConnectionsOfARing(t *testing.T) {
	a, b := connected(t, Options{}, Options{})
	c, d := connected(t, Options{}, Options{})
	p := publish(t, a, Ring{Slots: 1, Mode: Queue})
	if err := p.Offer(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	fast, slow := subscribe(t, b, SubscribeOptions{}), subscribe(t, d, SubscribeOptions{})
	put(t, p, 1)
	get(t, fast, 1, 1).Release()
	if _, err := p.Loan(briefly(t)); err == nil {
		t.Error("a slot was loaned while a subscriber needs it")
	}
	one := Stats{FramesSent: 1, FrameBytesSent: 128}
	fine, late := one, one
	fine.FramesReleased, late.FramesInFlight, late.LoanWaits = 1, 1, 1
	wantFrames(t, "the fast one", a, b, fine, Stats{FramesReceived: 1, FrameBytesReceived: 128})
	wantFrames(t, "the slow one", c, d, late, Stats{})
	_ = d.Close() // without releasing
	<-c.ended
	late.FramesInFlight = 0
	wantFrames(t, "the slow one, afterwards", c, d, late, Stats{})
	_ = slow.Close()
}

// A subscriber of the mode Latest counts the frames that it has missed.
func TestStatsOfLatest(t *testing.T) {
	a, b := connected(t, Options{}, Options{})
	p := publish(t, a, Ring{Slots: 3, Mode: Latest})
	s := subscribe(t, b, SubscribeOptions{})
	for n := range uint64(5) {
		put(t, p, n)
	}
	f := get(t, s, 5, 4)
	wantFrames(t, "held", a, b,
		Stats{FramesSent: 5, FramesReleased: 4, FramesInFlight: 1, FrameBytesSent: 5 * 128},
		Stats{FramesReceived: 1, FramesDropped: 4, FramesHeld: 1, FrameBytesReceived: 128})
	f.Release()
	wantFrames(t, "released", a, b,
		Stats{FramesSent: 5, FramesReleased: 5, FrameBytesSent: 5 * 128},
		Stats{FramesReceived: 1, FramesDropped: 4, FrameBytesReceived: 128})
}

// Frames that are copied to another device count as copied bytes.
func TestStatsOfCopiedFrames(t *testing.T) {
	a, b := connected(t, Options{}, Options{})
	p := publish(t, a, Ring{Slots: 3, Mode: Queue})
	s := subscribe(t, b, SubscribeOptions{Device: coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit})})
	put(t, p, 1)
	f, err := s.Receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantFrames(t, "copied", a, b,
		Stats{FramesSent: 1, FramesReleased: 1, FrameBytesSent: 128},
		Stats{FramesReceived: 1, FrameBytesReceived: 128, BytesCopied: 128})
	f.Release()
}

// The words of a hostile subscriber make no count smaller.
func TestStatsOfHostileWords(t *testing.T) {
	a, b := connected(t, Options{}, Options{})
	p := publish(t, a, Ring{Slots: 3, Mode: Queue})
	s := subscribe(t, b, SubscribeOptions{})
	put(t, p, 1)
	get(t, s, 1, 1).Release()
	if got := a.Stats().FramesReleased; got != 1 {
		t.Errorf("%d frames are released", got)
	}
	for i := range 3 {
		*s.page.u64(claimsAt + 8*int64(i)) = 77
	}
	if got := a.Stats(); got.FramesReleased != 1 || got.FramesInFlight != 0 {
		t.Errorf("%+v", got)
	}
}
