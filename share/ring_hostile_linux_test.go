package share

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
)

const ringSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE

// words makes a file for the words of a ring or a subscriber, which the intruder writes. The test
// closes both results.
func (x *intruder) words(size int64, seals, flags int) (fd int, m *mapping) {
	x.t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
	if err == nil {
		err = unix.Ftruncate(fd, size)
	}
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		x.t.Skip("this system has no huge pages")
	}
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { _ = unix.Close(fd) })
	if flags&unix.MFD_HUGETLB == 0 { // there may be no huge pages
		if m, err = mapShared(fd, size, unix.PROT_READ|unix.PROT_WRITE); err != nil {
			x.t.Fatal(err)
		}
		x.t.Cleanup(m.release)
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		x.t.Fatal(err)
	}
	return fd, m
}

// ring publishes a ring of four slots in its file.
func (x *intruder) ring(change func(*ringMessage)) *mapping {
	x.t.Helper()
	fd, m := x.words(8192, ringSeals, 0)
	x.announce(fd, change)
	return m
}

func (x *intruder) announce(fd int, change func(*ringMessage)) {
	m := ringMessage{
		id: 1, size: 8192, offset: 4096, stride: 256, slots: 4, mode: Queue, name: "frames",
		spec: core.Spec{DType: core.TypeUint64, Shape: []int64{16}},
	}
	if change != nil {
		change(&m)
	}
	x.write(x.message(kindRing, 1, appendRing(nil, &m)), fd)
}

// greet says a hello with rings.
func (x *intruder) greet() {
	x.write(x.message(kindHello, 0, appendHello(nil, hello{features: featureRings, limits: Limits{Tensors: 4, Memories: 4, Bytes: 1 << 30}})))
}

// file returns a descriptor of a file that is no memfd.
func (x *intruder) file() int {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { _ = f.Close() })
	return int(f.Fd())
}

// A peer that publishes or subscribes against the rules loses the connection.
func TestHostileMessagesAboutRings(t *testing.T) {
	subscription := subscribeMessage{id: 1, ring: 1, hold: 1, how: exchange.Map}
	subscribe := func(x *intruder, fd int, change func(*subscribeMessage)) {
		m := subscription
		change(&m)
		x.write(x.message(kindSubscribe, 1, appendSubscribe(nil, &m)), fd)
	}
	for _, c := range []struct {
		name string
		do   func(x *intruder)
		want error
	}{
		{"a ring without a descriptor", func(x *intruder) {
			x.write(x.message(kindRing, 0, appendRing(nil, &ringMessage{id: 1, size: 8192, offset: 4096, stride: 256, slots: 4, mode: Queue, name: "x", spec: core.Spec{DType: core.TypeUint64}})))
		}, core.ErrInvalid},
		{"a ring twice", func(x *intruder) {
			x.ring(nil)
			x.ring(func(m *ringMessage) { m.name = "other" })
		}, core.ErrInvalid},
		{"a name twice", func(x *intruder) {
			x.ring(nil)
			x.ring(func(m *ringMessage) { m.id = 2 })
		}, core.ErrInvalid},
		{"more rings than are permitted", func(x *intruder) {
			for i := range uint32(3) {
				x.ring(func(m *ringMessage) { m.id, m.name = i+1, string(rune('a'+i)) })
			}
		}, core.ErrOutOfMemory},
		{"more bytes than are permitted", func(x *intruder) {
			fd, _ := x.words(2<<20, ringSeals, 0)
			x.announce(fd, func(m *ringMessage) { m.size = 2 << 20 })
		}, core.ErrOutOfMemory},
		{"no slots", func(x *intruder) { x.ring(func(m *ringMessage) { m.slots = 0 }) }, core.ErrInvalid},
		{"slots that overlap", func(x *intruder) { x.ring(func(m *ringMessage) { m.stride = 64 }) }, core.ErrInvalid},
		{"slots that overlap the words", func(x *intruder) { x.ring(func(m *ringMessage) { m.offset = 64 }) }, core.ErrInvalid},
		{"slots beyond the end", func(x *intruder) { x.ring(func(m *ringMessage) { m.stride = 2048 }) }, core.ErrInvalid},
		{"slots without elements", func(x *intruder) { x.ring(func(m *ringMessage) { m.spec.Shape[0] = 0 }) }, core.ErrInvalid},
		{"a negative extent", func(x *intruder) { x.ring(func(m *ringMessage) { m.spec.Shape[0] = -1 }) }, core.ErrInvalid},
		{"extents that overflow", func(x *intruder) { x.ring(func(m *ringMessage) { m.spec.Shape = []int64{1 << 62, 1 << 62} }) }, core.ErrInvalid},
		{"an offset that overflows", func(x *intruder) { x.ring(func(m *ringMessage) { m.offset = 1 << 62 }) }, core.ErrInvalid},
		{"an unknown mode", func(x *intruder) { x.ring(func(m *ringMessage) { m.mode = 3 }) }, core.ErrInvalid},
		{"a memory that is not open", func(x *intruder) { x.ring(func(m *ringMessage) { m.memory = 7 }) }, core.ErrInvalid},
		{"a ring's file that is too small", func(x *intruder) { x.ring(func(m *ringMessage) { m.size = 1 << 14 }) }, core.ErrInvalid},
		{"a ring's file that can shrink", func(x *intruder) {
			fd, _ := x.words(8192, unix.F_SEAL_FUTURE_WRITE, 0)
			x.announce(fd, nil)
		}, core.ErrInvalid},
		{"a ring's file that others can write", func(x *intruder) {
			fd, _ := x.words(8192, unix.F_SEAL_SHRINK, 0)
			x.announce(fd, nil)
		}, core.ErrInvalid},
		{"a ring's file of huge pages", func(x *intruder) {
			fd, _ := x.words(2<<20, ringSeals, unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
			x.announce(fd, nil)
		}, core.ErrInvalid},
		{"a ring's file that is no memfd", func(x *intruder) { x.announce(x.file(), nil) }, core.ErrInvalid},
		{"the end of a ring that was not published", func(x *intruder) { x.write(x.message(kindRingEnd, 0, appendNumber(nil, 9))) }, core.ErrInvalid},
		{"an answer to nothing", func(x *intruder) {
			x.write(x.message(kindJoined, 0, appendJoined(nil, &joinedMessage{id: 1, first: 1})))
		}, core.ErrInvalid},
		{"the end of the memory of a ring", func(x *intruder) {
			x.pass()
			x.ring(func(m *ringMessage) { m.memory, m.offset = 1, 0 })
			x.write(x.message(kindForget, 0, appendForget(nil, 1)))
		}, core.ErrInvalid},
		{"a subscription to nothing", func(x *intruder) {
			fd, _ := x.words(4096, ringSeals, 0)
			subscribe(x, fd, func(m *subscribeMessage) { m.ring = 5 })
		}, core.ErrInvalid},
		{"a subscription twice", func(x *intruder) {
			fd, _ := x.words(4096, ringSeals, 0)
			subscribe(x, fd, func(*subscribeMessage) {})
			subscribe(x, fd, func(*subscribeMessage) {})
		}, core.ErrInvalid},
		{"a subscription without a descriptor", func(x *intruder) { x.write(x.message(kindSubscribe, 0, appendSubscribe(nil, &subscription))) }, core.ErrInvalid},
		{"a subscription that holds nothing", func(x *intruder) {
			fd, _ := x.words(4096, ringSeals, 0)
			subscribe(x, fd, func(m *subscribeMessage) { m.hold = 0 })
		}, core.ErrInvalid},
		{"words that are too small", func(x *intruder) {
			fd, _ := x.words(64, ringSeals, 0)
			subscribe(x, fd, func(*subscribeMessage) {})
		}, core.ErrInvalid},
		{"words that can shrink", func(x *intruder) {
			fd, _ := x.words(4096, unix.F_SEAL_FUTURE_WRITE, 0)
			subscribe(x, fd, func(*subscribeMessage) {})
		}, core.ErrInvalid},
		{"words in a pipe", func(x *intruder) {
			r, w, err := os.Pipe()
			if err != nil {
				x.t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			subscribe(x, int(r.Fd()), func(*subscribeMessage) {})
		}, core.ErrInvalid},
		{"the end in the middle", func(x *intruder) { x.ring(nil); _ = x.socket.Close() }, core.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			coretest.CheckNoLeaks(t)
			before := coretest.Descriptors()
			t.Run("", func(t *testing.T) {
				d := host(t)
				mine, theirs := pair(t)
				a := made(t, mine, Options{Devices: []core.Device{d}, Limits: Limits{Tensors: 2, Memories: 2, Bytes: 1 << 20}})
				x := &intruder{t: t, socket: theirs}
				x.greet()
				p := publish(t, a, Ring{Slots: 4, Mode: Queue})
				c.do(x)
				select {
				case <-a.Done():
				case <-time.After(10 * time.Second):
					t.Fatal("the connection goes on")
				}
				t.Log(a.Err())
				if err := a.Err(); !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				y, err := p.Loan(t.Context())
				if err != nil {
					t.Errorf("the publisher: %v", err)
				}
				y.Close()
			})
			coretest.WantDescriptors(t, before, "afterwards")
		})
	}
}

// A publisher that writes anything into its words ends the connection or gives wrong elements, and
// does no other harm.
func TestHostileWordsOfAPublisher(t *testing.T) {
	for _, mode := range []Mode{Queue, Latest} {
		for _, c := range []struct {
			name  string
			n     uint64 // what the publisher writes after frame 1 in slot 0
			slot  int
			entry uint64 // of the log
		}{
			{"a slot that there is not", 2, 60000, 0},
			{"a slot that is held", 2, 0, 0},
			{"a log that is wrong", 3, 50000, pack(77, 1)},
			{"a number that is too large", maxFrame, 1 << 15, 0},
		} {
			t.Run(mode.String()+": "+c.name, func(t *testing.T) {
				coretest.CheckNoLeaks(t)
				mine, theirs := pair(t)
				a := made(t, mine, Options{})
				x := &intruder{t: t, socket: theirs}
				x.greet()
				m := x.ring(func(m *ringMessage) { m.mode = mode })
				show := func(n uint64, slot int, entry uint64) {
					atomic.StoreUint64(m.u64(sequenceAt(4)+8*int64(slot%4)), 2*n)
					atomic.StoreUint64(m.u64(logAt+8*int64(2)), entry)
					atomic.StoreUint64(m.u64(publishedAt), pack(n, slot))
				}
				show(1, 0, 0)
				go x.answer()
				s := subscribe(t, a, SubscribeOptions{Hold: 4})
				f, err := s.Receive(t.Context())
				if err != nil || f.Sequence() != 1 {
					t.Fatalf("frame %d, error %v", f.Sequence(), err)
				}
				defer f.Release()
				show(c.n, c.slot, c.entry)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if _, err := s.Receive(ctx); !errors.Is(err, core.ErrInvalid) || !errors.As(err, new(*ConnError)) {
					t.Errorf("error %v", err)
				}
			})
		}
	}
}

// answer reads what comes until a subscription, which it accepts.
func (x *intruder) answer() {
	b, oob := make([]byte, maxMessage), make([]byte, 64)
	for {
		n, m, _, _, err := x.socket.ReadMsgUnix(b, oob)
		if err != nil {
			return
		}
		closeRights(oob[:m])
		if kind(b[6]) == kindSubscribe && n > headerSize {
			break
		}
	}
	x.write(x.message(kindJoined, 0, appendJoined(nil, &joinedMessage{id: 1, first: 1})))
}

// A subscriber that claims slots against the rules, or never releases one, blocks a publisher of the
// mode Queue until its connection ends, and a publisher of the mode Latest never.
func TestHostileWordsOfASubscriber(t *testing.T) {
	coretest.CheckNoLeaks(t)
	mine, theirs := pair(t)
	a := made(t, mine, Options{})
	x := &intruder{t: t, socket: theirs}
	x.greet()
	p := publish(t, a, Ring{Slots: 4, Mode: Latest})
	fd, m := x.words(4096, ringSeals, 0)
	x.write(x.message(kindSubscribe, 1, appendSubscribe(nil, &subscribeMessage{id: 1, ring: 1, hold: 1, how: exchange.Map})), fd)
	if err := p.WaitReaders(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	put(t, p, 1)
	for i := range int64(4) {
		atomic.StoreUint64(m.u64(claimsAt+8*i), 1+uint64(i)<<60)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	y, err := p.Loan(ctx)
	if err != nil {
		t.Fatal(err)
	}
	y.Close()
	<-a.Done()
	if err := a.Err(); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("the connection has ended with %v", err)
	}
	put(t, p, 2)
}

// A subscription to a ring in memory whose descriptor could not be received says so.
func TestARingInLostMemory(t *testing.T) {
	d := host(t)
	mine, theirs := pair(t)
	c, peer := made(t, mine, of(d)), &intruder{t: t, socket: theirs}
	peer.greet()
	if err := c.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, fd := peer.memory(4096, 4096, core.HandleMemFD, unix.F_SEAL_SHRINK)
	withoutDescriptors(t, func() {
		peer.write(peer.message(kindMemory, 1, appendObject(nil, 1, objectMemory, data)), fd)
		for arrived := false; !arrived && c.Err() == nil; time.Sleep(time.Millisecond) {
			c.mu.Lock()
			arrived = len(c.opened) == 1
			c.mu.Unlock()
		}
	})
	peer.ring(func(m *ringMessage) { m.memory, m.offset = 1, 0 })
	_, err := c.Subscribe(t.Context(), "frames", SubscribeOptions{})
	if !errors.Is(err, core.ErrOutOfMemory) || c.Err() != nil {
		t.Errorf("error %v, and of the connection: %v", err, c.Err())
	}
}
