package share

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// A publisher that breaks the rules for unfinished work loses the connection. One that never says that the work has
// ended holds up only those that read the frame, until the connection ends.
func TestHostileMessagesAboutWork(t *testing.T) {
	state := func(change func(*workMessage)) workMessage {
		m := workMessage{subscription: 1, slot: 0, frame: 1}
		if change != nil {
			change(&m)
		}
		return m
	}
	ended := func(m *workMessage) { m.ended = true }
	for _, c := range []struct {
		name string
		list []workMessage
		held bool // the frame is received after the first message
		ok   bool // the connection goes on
	}{
		{"a subscription that was not made", []workMessage{state(func(m *workMessage) { m.subscription = 7 })}, false, false},
		{"a slot that there is not", []workMessage{state(func(m *workMessage) { m.slot = 4 })}, false, false},
		{"a semaphore that is not open", []workMessage{state(func(m *workMessage) { m.semaphore, m.value = 9, 1 })}, false, false},
		{"unfinished twice", []workMessage{state(nil), state(nil)}, false, false},
		{"ended twice", []workMessage{state(ended), state(ended)}, false, false},
		{"unfinished after the end", []workMessage{state(ended), state(nil)}, false, false},
		{"an earlier frame", []workMessage{state(func(m *workMessage) { m.frame = 5 }), state(nil)}, false, false},
		{"another frame in a slot that is held", []workMessage{state(nil), state(func(m *workMessage) { m.frame = 5 })}, true, false},
		{"another frame in a slot that is held, after the end", []workMessage{state(nil), state(ended), state(func(m *workMessage) { m.frame = 5 })}, true, false},
		{"another frame in a slot that is not held", []workMessage{state(nil), state(func(m *workMessage) { m.frame = 5 })}, false, true},
		{"the end of a frame that was not unfinished", []workMessage{state(ended)}, false, true},
		{"frames that were never published", []workMessage{state(func(m *workMessage) { m.frame = maxFrame })}, false, true},
		{"work that never ends", []workMessage{state(nil)}, true, true},
	} {
		for _, mode := range []Mode{Queue, Latest} {
			t.Run(mode.String()+": "+c.name, func(t *testing.T) {
				coretest.CheckNoLeaks(t)
				mine, theirs := pair(t)
				a := made(t, mine, Options{})
				x := &intruder{t: t, socket: theirs}
				x.greet()
				m := x.ring(func(m *ringMessage) { m.mode = mode })
				answered := make(chan struct{})
				go func() { defer close(answered); x.answer() }()
				s := subscribe(t, a, SubscribeOptions{Hold: 2})
				<-answered
				atomic.StoreUint64(m.u64(sequenceAt(4)), 2)
				atomic.StoreUint64(m.u64(publishedAt), pack(1, unfinished))
				_, err := s.Receive(briefly(t))
				wantBlocked(t, "a frame without a message", err)
				var f Frame
				for i := range c.list {
					x.write(x.message(kindWork, 0, appendWork(nil, &c.list[i])))
					if i == 0 && c.held {
						if f, err = s.Receive(t.Context()); err != nil {
							t.Fatal(err)
						}
						wantUnfinished(t, f)
					}
				}
				if !c.ok {
					<-a.Done()
					if err := a.Err(); !errors.Is(err, core.ErrInvalid) {
						t.Errorf("error %v", err)
					}
				} else {
					x.write(x.message(kindRing, 0, nil)) // breaks the rules, after all others
					<-a.Done()
					until(t, "the messages before it are handled", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.slots[0].work != nil })
				}
				<-a.ended
				if c.held {
					err := f.Tensor().WaitReady(t.Context())
					if told := slices.ContainsFunc(c.list, func(m workMessage) bool { return m.ended }); told && err != nil || !told && !errors.As(err, new(*ConnError)) {
						t.Errorf("reading gives %v", err)
					}
					f.Release()
				}
			})
		}
	}
}

// A subscriber that says it has released a slot before the work on it has ended does not get it written again.
func TestAnEarlyReleaseOfASlot(t *testing.T) {
	mine, theirs := pair(t)
	a := made(t, mine, Options{})
	x := &intruder{t: t, socket: theirs}
	x.greetLate()
	p := publish(t, a, Ring{Slots: 1, Mode: Queue})
	fd, m := x.words(4096, ringSeals, 0)
	x.write(x.message(kindSubscribe, 1, appendSubscribe(nil, &subscribeMessage{id: 1, ring: 1, hold: 1, how: exchange.Map})), fd)
	if err := p.WaitReaders(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	e, _ := late(t, p, 1)
	atomic.StoreUint64(m.u64(claimsAt), 1)
	_, err := p.Loan(briefly(t))
	wantBlocked(t, "a slot whose work is unfinished", err)
	e.Complete(nil)
	y, err := p.Loan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = y.Close()
}

// greetLate is greet, of a peer that takes frames whose work is unfinished.
func (x *intruder) greetLate() {
	x.write(x.message(kindHello, 0, appendHello(nil, hello{features: featureRings | featureWork, limits: Limits{Tensors: 4, Memories: 4, Bytes: 1 << 30}})))
}

// A subscriber that does not read its messages neither blocks a publisher of the mode Latest nor makes it keep a growing
// list. When it reads again, each slot's messages are in order.
func TestASubscriberThatDoesNotReadMessages(t *testing.T) {
	mine, theirs := pair(t)
	a := made(t, mine, Options{})
	x := &intruder{t: t, socket: theirs}
	x.greetLate()
	p := publish(t, a, Ring{Slots: 4, Mode: Latest})
	fd, _ := x.words(4096, ringSeals, 0)
	x.write(x.message(kindSubscribe, 1, appendSubscribe(nil, &subscribeMessage{id: 1, ring: 1, hold: 1, how: exchange.Map})), fd)
	if err := p.WaitReaders(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	const frames = 2000 // more than the socket takes
	for n := range uint64(frames) {
		e, _ := late(t, p, n)
		e.Complete(nil)
	}
	if err := p.WaitReleased(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	due := len(p.readers[0].due)
	held := map[int]uint64{} // the frame of each slot; a slot whose work ends late is passed over
	for i, s := range p.slots {
		held[i] = s.frame
	}
	p.mu.Unlock()
	if due == 0 || due > 4 {
		t.Errorf("the publisher keeps %d messages", due)
	}
	last, ends := map[int]uint64{}, map[int]bool{}
	told := func(slot int) bool { return last[slot] == held[slot] && ends[slot] }
	for count := 0; !told(0) || !told(1) || !told(2) || !told(3); count++ {
		h, payload, _ := x.received()
		if h.kind != kindWork {
			continue
		}
		m, err := readWork(payload)
		if err != nil {
			t.Fatal(err)
		}
		if m.frame < last[m.slot] || m.frame == last[m.slot] && (ends[m.slot] || !m.ended) {
			t.Fatalf("message %d is %+v, after one about frame %d, ended %t", count, m, last[m.slot], ends[m.slot])
		}
		last[m.slot], ends[m.slot] = m.frame, m.ended
	}
	if err := a.Err(); err != nil {
		t.Error(err)
	}
}

// A subscriber that comes and goes, and does not read its messages, cannot make the publisher keep a growing list.
func TestASubscriberThatComesAndGoes(t *testing.T) {
	const pairs = maxNotes/2 + 1 // of a subscription and its end
	for _, mode := range []Mode{Queue, Latest} {
		mine, theirs := pair(t)
		a := made(t, mine, Options{})
		x := &intruder{t: t, socket: theirs}
		x.greetLate()
		p := publish(t, a, Ring{Slots: 4, Mode: mode})
		e, _ := late(t, p, 1)
		fd, _ := x.words(4096, ringSeals, 0)
		a.writing <- struct{}{} // no message is written
		end := sync.OnceFunc(func() { <-a.writing; e.Complete(nil) })
		t.Cleanup(end) // before the connection is closed
		for id := range uint32(pairs) {
			x.write(x.message(kindSubscribe, 1, appendSubscribe(nil, &subscribeMessage{id: id + 1, ring: 1, hold: 1, how: exchange.Map})), fd)
			x.write(x.message(kindLeave, 0, appendLeave(nil, id+1, 0)))
		}
		if mode == Latest { // each one is to be told of the newest frame
			until(t, "the connection ends", func() bool { return a.Err() != nil })
			if err := a.Err(); !errors.Is(err, core.ErrOutOfMemory) {
				t.Errorf("error %v", err)
			}
		} else {
			until(t, "all messages are handled", func() bool {
				a.mu.Lock()
				defer a.mu.Unlock()
				return len(a.notes) == pairs && len(a.readers) == 0
			})
			a.mu.Lock()
			if n := len(a.telling); n != 0 || a.err != nil {
				t.Errorf("%d subscribers are to be told of nothing, error %v", n, a.err)
			}
			a.mu.Unlock()
		}
		until(t, "all have left", func() bool { return len(p.Readers()) == 0 })
		p.mu.Lock()
		if n := len(p.slots[p.latest].work.readers); n != 0 {
			t.Errorf("%v: the work on the frame keeps %d subscribers", mode, n)
		}
		p.mu.Unlock()
		end()
	}
}

// A subscriber that takes a claim back wakes a publisher that sleeps: WaitReleased waits for claims, too.
func TestAClaimThatIsTakenBackWakes(t *testing.T) {
	mine, theirs := pair(t)
	a := made(t, mine, Options{})
	x := &intruder{t: t, socket: theirs}
	x.greet()
	m := x.ring(func(m *ringMessage) { m.mode = Latest })
	answered := make(chan struct{})
	go func() { defer close(answered); x.answer() }()
	s := subscribe(t, a, SubscribeOptions{})
	<-answered
	atomic.StoreUint64(m.u64(sequenceAt(4)), 2|looking) // the publisher looks for claims
	for _, slot := range []int{0, unfinished} {         // a frame, or one without its message, for which no slot is claimed
		atomic.StoreUint64(m.u64(publishedAt), pack(1, slot))
		for _, waiting := range []uint32{0, 1} {
			atomic.StoreUint32(m.u32(waitingAt), waiting)
			before := atomic.LoadUint32(s.page.u32(freedAt))
			if f, err := s.poll(); f.number != 0 || err != nil {
				t.Fatalf("frame %d, error %v", f.number, err)
			}
			if woken := atomic.LoadUint32(s.page.u32(freedAt)) != before; woken != (waiting == 1 && slot == 0) {
				t.Errorf("slot %#x: a publisher that says %d is woken: %t", slot, waiting, woken)
			}
		}
	}
}

// FuzzWork lets a publisher send any two messages about work, with a frame in its words that is unfinished.
func FuzzWork(f *testing.F) {
	one := func(change func(*workMessage)) []byte {
		m := workMessage{subscription: 1, frame: 1}
		if change != nil {
			change(&m)
		}
		return appendWork(nil, &m)
	}
	f.Add(false, one(nil), one(func(m *workMessage) { m.ended = true }))
	f.Add(true, one(nil), one(func(m *workMessage) { m.frame = 9 }))
	f.Add(false, one(func(m *workMessage) { m.semaphore, m.value = 3, 3 }), []byte{})
	f.Add(true, one(func(m *workMessage) { m.ended, m.result.status, m.result.text = true, resultLost, "x" }), one(func(m *workMessage) { m.slot = 200 }))
	f.Fuzz(func(t *testing.T, latest bool, first, second []byte) {
		if len(first) > maxMessage-headerSize || len(second) > maxMessage-headerSize {
			return
		}
		mine, theirs := pair(t)
		a := made(t, mine, Options{})
		x := &intruder{t: t, socket: theirs}
		x.greet()
		m := x.ring(func(m *ringMessage) {
			if latest {
				m.mode = Latest
			}
		})
		answered := make(chan struct{})
		go func() { defer close(answered); x.answer() }()
		s := subscribe(t, a, SubscribeOptions{})
		<-answered
		atomic.StoreUint64(m.u64(sequenceAt(4)), 2)
		atomic.StoreUint64(m.u64(publishedAt), pack(1, unfinished))
		x.write(x.message(kindWork, 0, first))
		x.write(x.message(kindWork, 0, second))
		x.write(x.message(kindGoodbye, 0, appendGoodbye(nil, reasonClosed, "")))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		frame, err := s.Receive(ctx) // or the end
		if err == nil {
			_ = frame.Tensor().WaitReady(ctx)
			_ = frame.Err()
			frame.Release()
		}
		<-a.ended
		if ctx.Err() != nil {
			t.Error("the end of the connection did not end the wait")
		}
	})
}

// A peer may forget the semaphore of a frame whose work has ended, at any moment. A call of Receive that has just got the
// frame then finds the semaphore closed, with the connection open, and leaves the wait to the host.
func TestASemaphoreThatIsForgottenMeanwhile(t *testing.T) {
	_, b := connected(t, Options{}, Options{})
	x := &openSemaphore{patience: defaultPatience, busy: make(chan struct{}, 1)}
	x.close(false)
	e, err := x.arrival(t.Context(), b, host(t), 1, stream.NewEvent())
	if e != nil || !errors.Is(err, core.ErrClosed) {
		t.Errorf("event %v, error %v", e, err)
	}
}
