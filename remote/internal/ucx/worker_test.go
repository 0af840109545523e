//go:build ucx && linux && cgo

package ucx_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/remote/internal/ucx"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// end is a worker with what has happened to it.
type end struct {
	*ucx.Worker
	arrived chan *ucx.Message
	broken  chan error
	dropped chan struct{}
}

func open(t testing.TB, messages int) *end {
	t.Helper()
	e := &end{arrived: make(chan *ucx.Message, 10_000), broken: make(chan error, 1), dropped: make(chan struct{}, 1)}
	w, err := ucx.NewWorker(messages, ucx.Handler{
		Arrived: func(m *ucx.Message) bool {
			e.arrived <- m
			return true
		},
		Broken:  func(err error) { e.broken <- err },
		Dropped: func() { e.dropped <- struct{}{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Worker = w
	t.Cleanup(func() { _ = w.Close() })
	return e
}

func pair(t testing.TB, messages int) (a, b *end) {
	t.Helper()
	a, b = open(t, messages), open(t, messages)
	if err := errors.Join(a.Connect(b.Address()), b.Connect(a.Address())); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// address pins b until the test ends.
func address(t testing.TB, b []byte) uintptr {
	var p runtime.Pinner
	p.Pin(&b[0])
	t.Cleanup(p.Unpin)
	return uintptr(unsafe.Pointer(&b[0]))
}

func filled(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) ^ byte(i>>8) ^ seed
	}
	return b
}

// wait returns a function for Send, and one that waits for its call.
func wait() (done func(error), result func() error) {
	c := make(chan error, 1)
	return func(err error) { c <- err }, func() error { return <-c }
}

// A worker that has no peer yet makes no progress, so that a peer which connects to it, and dies, does no harm.
func TestNoProgressBeforeConnect(t *testing.T) {
	a, b := open(t, 100), open(t, 100)
	if err := a.Connect(b.Address()); err != nil {
		t.Fatal(err)
	}
	if err := a.Send([]byte("header"), 0, 0, false, func(error) {}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
		if b.Poll() {
			t.Fatal("something has happened")
		}
	}
	if len(b.arrived) > 0 {
		t.Fatal("a message has arrived")
	}
	if err := b.Connect(a.Address()); err != nil {
		t.Fatal(err)
	}
	(<-b.arrived).Drop()
}

func TestMessages(t *testing.T) {
	a, b := pair(t, 100)
	for _, n := range []int{0, 1, 4096, ucx.MaxEager, ucx.MaxEager + 1, 1 << 20, 9<<20 + 5} {
		for _, fetched := range []bool{false, true} {
			if fetched && n == 0 || !fetched && n > ucx.MaxEager {
				continue
			}
			t.Run(fmt.Sprintf("%d bytes, fetched %v", n, fetched), func(t *testing.T) {
				from, to := filled(n, 1), make([]byte, n)
				header := filled(200, 2)
				ended, sent := wait()
				var p uintptr
				if n > 0 {
					p = address(t, from)
				}
				if err := a.Send(header, p, int64(n), fetched, ended); err != nil {
					t.Fatal(err)
				}
				m := <-b.arrived
				if !bytes.Equal(m.Header, header) || m.Length != int64(n) || m.Fetched() != fetched {
					t.Fatalf("a message of %d bytes with a header of %d bytes, fetched %v", m.Length, len(m.Header), m.Fetched())
				}
				done, received := wait()
				var place uintptr
				if n > 0 {
					place = address(t, to)
				}
				if err := m.Receive(place, int64(n), done); err != nil {
					t.Fatal(err)
				}
				if err := received(); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(from, to) {
					t.Error("the bytes differ")
				}
				if err := sent(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	t.Logf("UCX %s, by %v", ucx.Version(), a.Transports())
	if len(a.Transports()) == 0 {
		t.Error("UCX names no transport")
	}
}

// Both sides send at the same time, from several goroutines, while others poll.
func TestManyMessages(t *testing.T) {
	a, b := pair(t, 10_000)
	const senders, each = 4, 200
	var group sync.WaitGroup
	stop := make(chan struct{})
	for _, e := range []*end{a, b} {
		for i := range senders {
			group.Go(func() {
				data := filled(20_000, byte(i))
				p := address(t, data)
				var all []func() error
				for k := range each {
					fetched := k%2 == 0
					n := int64(100)
					if fetched {
						n = 20_000
					}
					done, sent := wait()
					if err := e.Send([]byte{byte(i)}, p, n, fetched, done); err != nil {
						t.Error(err)
						return
					}
					all = append(all, sent)
				}
				for _, sent := range all {
					if err := sent(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Go(func() {
			to := make([]byte, 20_000)
			p := address(t, to)
			for range senders * each {
				m := <-e.arrived
				done, received := wait()
				got, first := to[:m.Length], m.Header[0]
				if err := errors.Join(m.Receive(p, m.Length, done), received()); err != nil {
					t.Error(err)
				}
				if !bytes.Equal(got, filled(len(got), first)) {
					t.Error("the bytes differ")
				}
			}
		})
	}
	var polling sync.WaitGroup
	polling.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				a.Poll()
			}
		}
	})
	group.Wait()
	close(stop)
	polling.Wait()
}

// The data of a message that came with it outlives the worker, until it is received or dropped.
func TestDataThatOutlivesTheWorker(t *testing.T) {
	a, b := pair(t, 100)
	data, got := filled(1000, 3), make([]byte, 1000)
	for range 2 {
		done, sent := wait()
		if err := a.Send([]byte{1, 2}, address(t, data), 1000, false, done); err != nil {
			t.Fatal(err)
		}
		if err := sent(); err != nil {
			t.Fatal(err)
		}
	}
	first, second := <-b.arrived, <-b.arrived
	_ = b.Close()
	if !bytes.Equal(first.Header, []byte{1, 2}) {
		t.Errorf("the header is %v", first.Header)
	}
	done, received := wait()
	if err := first.Receive(address(t, got), 1000, done); err != nil {
		t.Fatal(err)
	}
	if err := received(); err != nil || !bytes.Equal(got, data) {
		t.Errorf("data of a worker that was closed: %v", err)
	}
	second.Drop()
	if err := second.Receive(address(t, got), 1000, done); !errors.Is(err, core.ErrClosed) {
		t.Errorf("after Drop: %v", err)
	}
}

// Close ends what is unfinished on both sides, and nothing stays open.
func TestCloseEndsOperations(t *testing.T) {
	a, b := pair(t, 100)
	data := filled(1<<20, 3)
	var results []func() error
	for range 10 {
		done, sent := wait()
		if err := a.Send([]byte{1}, address(t, data), 1<<20, true, done); err != nil {
			t.Fatal(err)
		}
		results = append(results, sent)
	}
	m := <-b.arrived
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for _, sent := range results {
		if err := sent(); !errors.Is(err, core.ErrClosed) {
			t.Errorf("an operation of a closed worker ended with %v", err)
		}
	}
	done, received := wait()
	if err := m.Receive(address(t, make([]byte, 1<<20)), 1<<20, done); err == nil {
		_ = b.Close()
		if err := received(); err == nil {
			t.Error("bytes of a worker that was closed have come")
		}
	}
	_ = b.Close()
	m.Drop()
	for _, err := range []error{a.Connect(b.Address()), a.Send([]byte{1}, 0, 0, false, done), m.Receive(1, 1<<20, done)} {
		if !errors.Is(err, core.ErrClosed) {
			t.Errorf("a closed worker returns %v", err)
		}
	}
	if a.Poll() || len(a.Transports()) != 0 {
		t.Error("a closed worker does something")
	}
}

// A peer that sends more than the limit is noticed, and the rest of its messages go on.
func TestTooManyMessages(t *testing.T) {
	a, b := pair(t, 3)
	data := filled(1<<16, 3)
	for range 10 {
		if err := a.Send([]byte{1}, address(t, data), 1<<16, true, func(error) {}); err != nil {
			t.Fatal(err)
		}
	}
	<-b.dropped
	if n := len(b.arrived); n > 3 {
		t.Errorf("%d messages were kept, and 3 are permitted", n)
	}
}

// Messages without the token are dropped and counted, and use nothing up of what the peer may send.
func TestMessagesOfOthers(t *testing.T) {
	a := open(t, 100)
	token := [ucx.TokenSize]byte{3, 14, 15}
	arrived, foreign := make(chan *ucx.Message, 10), make(chan int64, 100)
	b, err := ucx.NewWorker(1, ucx.Handler{
		Arrived: func(m *ucx.Message) bool { arrived <- m; return true },
		Broken:  func(error) {},
		Dropped: func() { t.Error("the peer counts as one that sends too much") },
		Token:   &token, Foreign: func(n int64) { foreign <- n },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := errors.Join(a.Connect(b.Address()), b.Connect(a.Address())); err != nil {
		t.Fatal(err)
	}
	data := filled(1<<16, 3)
	wrong := token
	wrong[ucx.TokenSize-1] = 1
	for range 10 {
		for _, header := range [][]byte{wrong[:], token[:ucx.TokenSize-1]} {
			if err := a.Send(header, address(t, data), 1<<16, true, func(error) {}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.Send(token[:], 0, 0, false, func(error) {}); err != nil {
		t.Fatal(err)
	}
	(<-arrived).Drop()
	for n := int64(20); n > 0; {
		n -= <-foreign
	}
}

func TestWrongArguments(t *testing.T) {
	a, b := pair(t, 10)
	p := address(t, make([]byte, 10))
	none := func(error) { t.Error("done was called after an error") }
	for i, err := range []error{
		a.Connect(b.Address()), // twice
		open(t, 1).Connect(nil),
		open(t, 1).Connect(make([]byte, ucx.MaxAddress+1)),
		a.Send(nil, 0, 0, false, none),
		a.Send(make([]byte, ucx.MaxHeader+1), 0, 0, false, none),
		a.Send([]byte{1}, p, ucx.MaxEager+1, false, none),
		a.Send([]byte{1}, p, 0, true, none),
		a.Send([]byte{1}, p, -1, true, none),
	} {
		if !errors.Is(err, core.ErrInvalid) {
			t.Errorf("case %d: %v", i, err)
		}
	}
	if err := open(t, 1).Send([]byte{1}, 0, 0, false, none); !errors.Is(err, core.ErrClosed) {
		t.Errorf("a worker without a peer: %v", err)
	}
	if err := a.Send([]byte{1}, p, 10, true, func(error) {}); err != nil {
		t.Fatal(err)
	}
	m := <-b.arrived
	if err := m.Receive(p, 9, none); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("too little room: %v", err)
	}
	m.Drop()
	if err := m.Receive(p, 10, none); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("after Drop: %v", err)
	}
	if !slices.Contains([]int{ucx.MaxHeader}, min(a.MaxHeader(), ucx.MaxHeader)) && a.MaxHeader() < 2200 {
		t.Errorf("headers have %d bytes at most", a.MaxHeader())
	}
}
