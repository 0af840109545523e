package share

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// scribble writes a word that the input chooses among the first words of a file, and returns the rest
// of the input.
func scribble(m *mapping, input []byte) []byte {
	var b [9]byte
	n := copy(b[:], input)
	atomic.StoreUint64(m.u64(8*int64(b[0]%24)), binary.LittleEndian.Uint64(b[1:]))
	return input[n:]
}

// wantTyped fails unless an error is nil, or says that the peer has broken the rules.
func wantTyped(t *testing.T, c *Conn, err error) {
	t.Helper()
	if err != nil && (!errors.Is(err, core.ErrInvalid) || !errors.As(err, new(*ConnError)) || c.Err() == nil) {
		t.Errorf("error %v, and the connection %v", err, c.Err())
	}
}

// FuzzWordsOfAPublisher lets a publisher write anything into its words: the subscriber gets a frame that
// it can read, or an error.
func FuzzWordsOfAPublisher(f *testing.F) {
	f.Add(false, []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 2})
	f.Add(true, []byte{12, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, latest bool, input []byte) {
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
		s := subscribe(t, a, SubscribeOptions{Hold: 2})
		<-answered
		var held []Frame
		for len(input) > 0 {
			input = scribble(m, input)
			frame, err := s.poll()
			if err != nil && !errors.Is(err, core.ErrOutOfMemory) {
				wantTyped(t, a, s.failed(err))
				break
			}
			if frame.Tensor() != nil {
				if _, err := core.Values[uint64](frame.Tensor()); err != nil {
					t.Error(err)
				}
				_ = frame.Err()
				held = append(held, frame)
			}
			if len(held) == 2 || len(input)%3 == 0 && len(held) > 0 {
				held[0].Release()
				held = held[1:]
			}
		}
		for _, frame := range held {
			frame.Release()
		}
	})
}

// FuzzWordsOfASubscriber lets a subscriber write anything into its words: a publisher of the mode
// Latest sends, or ends the connection.
func FuzzWordsOfASubscriber(f *testing.F) {
	f.Add([]byte{16, 1, 0, 0, 0, 0, 0, 0, 0, 17, 1, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, input []byte) {
		mine, theirs := pair(t)
		a := made(t, mine, Options{})
		x := &intruder{t: t, socket: theirs}
		x.greet()
		p := publish(t, a, Ring{Slots: 4, Mode: Latest})
		fd, m := x.words(4096, ringSeals, 0)
		x.write(x.message(kindSubscribe, 1, appendSubscribe(nil, &subscribeMessage{id: 1, ring: 1, hold: 2, how: exchange.Map})), fd)
		if err := p.WaitReaders(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		for n := uint64(1); len(input) > 0; n++ {
			input = scribble(m, input)
			if r := put(t, p, n); r.Sequence != n {
				t.Errorf("frame %d has the number %d", n, r.Sequence)
			}
		}
		if len(p.Readers()) == 0 {
			<-a.Done()
		}
		wantTyped(t, a, a.Err())
	})
}
