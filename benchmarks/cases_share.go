package benchmarks

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/share"
)

// shareCases measure package share. Both ends of a connection are in this process, so that the cases measure what the package
// and the system cost, and not how long a process takes to wake up.
func shareCases() []Case {
	cases := []Case{{
		Name:        "share/tensor/known",
		Description: "a tensor of known memory: sent, received, closed, and its release waited for",
		setup:       func(e *env) (trial, error) { return sendTensors(e, false) },
	}, {
		Name:        "share/tensor/new",
		Description: "the same for a tensor of new memory, which is allocated, passed, mapped and freed",
		setup:       func(e *env) (trial, error) { return sendTensors(e, true) },
	}}
	for _, subscribers := range []int{1, 2, 4} {
		cases = append(cases, Case{
			Name:        fmt.Sprintf("share/ring/6MiB/%d", subscribers),
			Description: fmt.Sprintf("a slot of a ring filled with 6 MiB, passed to %d subscribers, and released by them", subscribers),
			setup:       func(e *env) (trial, error) { return passFrames(e, 6<<20, subscribers) },
		})
	}
	return append(cases, Case{
		Name:        "share/ring/64B/1",
		Description: "the same for 64 bytes and one subscriber: what a frame costs",
		setup:       func(e *env) (trial, error) { return passFrames(e, 64, 1) },
	}, Case{
		Name:        "share/ring/64B/awake",
		Description: "a frame of 64 bytes to another goroutine, which answers it by one of another ring; both look until it comes",
		setup:       answerFrames,
	})
}

// answerFrames is the case of frames that another goroutine answers. The baseline passes a word each way.
func answerFrames(e *env) (trial, error) {
	senders, receivers, err := e.connections(1, share.Options{})
	if err != nil {
		return trial{}, err
	}
	way := func(name string, from, to *share.Conn) (*share.Publisher, *share.Subscription, error) {
		p, err := from.Publish(e.ctx, name, share.Ring{Slots: 8, Shape: []int64{8}, DType: core.TypeUint64, Mode: share.Queue})
		if err != nil {
			return nil, nil, err
		}
		e.cleanup(func() { _ = p.Close() })
		s, err := to.Subscribe(e.ctx, name, share.SubscribeOptions{})
		if err != nil {
			return nil, nil, err
		}
		e.cleanup(func() { _ = s.Close() })
		return p, s, nil
	}
	questions, asked, err := way("questions", senders[0], receivers[0])
	if err != nil {
		return trial{}, err
	}
	answers, answered, err := way("answers", receivers[0], senders[0])
	if err != nil {
		return trial{}, err
	}
	words, err := e.words()
	if err != nil {
		return trial{}, err
	}
	ctx, stop := context.WithCancel(e.ctx)
	requests, results := make(chan int), make(chan error)
	done := make(chan struct{})
	e.cleanup(func() { stop(); close(requests); <-done })
	go func() {
		defer close(done)
		for n := range requests {
			results <- func() error {
				for range n {
					word, err := receiveWord(ctx, asked)
					if err != nil {
						return err
					}
					if err := sendWord(ctx, answers, word); err != nil {
						return err
					}
				}
				return nil
			}()
		}
	}()
	count := uint64(0)
	own := timed(func(n int) error {
		requests <- n
		for range n {
			count++
			err := sendWord(ctx, questions, count)
			got := uint64(0)
			if err == nil {
				got, err = receiveWord(ctx, answered)
			}
			if err == nil && got != count {
				err = fmt.Errorf("frame %d is answered by %d", count, got)
			}
			if err != nil {
				stop() // the other goroutine may wait for a frame
				return cmp.Or(<-results, err)
			}
		}
		return <-results
	})
	return trial{own: own, baselines: []baseline{{name: "memfd words", sample: words}}}, nil
}

// sendWord passes a frame with a first word.
func sendWord(ctx context.Context, p *share.Publisher, word uint64) error {
	slot, err := p.Loan(ctx)
	if err != nil {
		return err
	}
	words, err := core.Mutable[uint64](slot)
	if err != nil {
		return err
	}
	words[0] = word
	_, err = p.Send(ctx, slot)
	return err
}

// receiveWord receives a frame and returns its first word.
func receiveWord(ctx context.Context, s *share.Subscription) (uint64, error) {
	f, err := s.Receive(ctx)
	if err != nil {
		return 0, err
	}
	defer f.Release()
	words, err := core.Values[uint64](f.Tensor())
	if err != nil {
		return 0, err
	}
	return words[0], nil
}

// connections makes n connections, whose ends are both here.
func (e *env) connections(n int, o share.Options) (senders, receivers []*share.Conn, err error) {
	folder, err := os.MkdirTemp("", "dlx-bench-")
	if err != nil {
		return nil, nil, err
	}
	e.cleanup(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "socket")
	l, err := share.Listen(path, o)
	if err != nil {
		return nil, nil, err
	}
	e.cleanup(func() { _ = l.Close() })
	for range n {
		type accepted struct {
			c   *share.Conn
			err error
		}
		accept := make(chan accepted, 1)
		go func() {
			c, err := l.Accept(e.ctx)
			accept <- accepted{c, err}
		}()
		sender, err := share.Dial(e.ctx, path, o)
		if err != nil {
			_ = l.Close() // ends Accept
		} else {
			e.cleanup(func() { _ = sender.Close() })
		}
		receiver := <-accept
		if receiver.err == nil {
			e.cleanup(func() { _ = receiver.c.Close() })
		}
		if err := cmp.Or(err, receiver.err); err != nil {
			return nil, nil, err
		}
		senders, receivers = append(senders, sender), append(receivers, receiver.c)
	}
	return senders, receivers, nil
}

// sendTensors is the case of tensors that another goroutine receives and closes.
func sendTensors(e *env, fresh bool) (trial, error) {
	d, err := e.device()
	if err != nil {
		return trial{}, err
	}
	senders, receivers, err := e.connections(1, share.Options{Devices: []core.Device{d}})
	if err != nil {
		return trial{}, err
	}
	sender := senders[0]
	ctx, stop := context.WithCancel(e.ctx)
	done := make(chan struct{})
	e.cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		for {
			t, _, err := receivers[0].Receive(ctx, d)
			if err != nil {
				return
			}
			_ = t.Close()
		}
	}()
	allocate := func() (*core.Tensor, error) {
		return core.Empty(e.ctx, d, core.TypeUint8, []int64{4096}, core.AllocOptions{Export: core.HandleMemFD})
	}
	known, err := e.keep(allocate())
	if err != nil {
		return trial{}, err
	}
	send := func(t *core.Tensor) error {
		if _, err := sender.Send(e.ctx, t); err != nil {
			return err
		}
		return sender.WaitReleased(e.ctx)
	}
	one := func() error { return send(known) }
	if fresh {
		one = func() error {
			t, err := allocate()
			if err != nil {
				return err
			}
			if _, err = sender.Send(e.ctx, t); err == nil {
				_ = t.Close() // the receiver has the memory
				return sender.WaitReleased(e.ctx)
			}
			_ = t.Close()
			return err
		}
	}
	bare, err := e.socketMessages()
	if err != nil {
		return trial{}, err
	}
	return trial{own: repeat(one), baselines: []baseline{{name: "socket message", sample: bare}}}, nil
}

// socketMessages is the time of 64 bytes there and back over a socket of the same kind.
func (e *env) socketMessages() (sampler, error) {
	folder, err := os.MkdirTemp("", "dlx-bench-")
	if err != nil {
		return nil, err
	}
	e.cleanup(func() { _ = os.RemoveAll(folder) })
	at := &net.UnixAddr{Name: filepath.Join(folder, "socket"), Net: "unixpacket"}
	l, err := net.ListenUnix(at.Net, at)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	mine, err := net.DialUnix(at.Net, nil, at)
	if err != nil {
		return nil, err
	}
	theirs, err := l.Accept()
	if err != nil {
		_ = mine.Close()
		return nil, err
	}
	done := make(chan struct{})
	e.cleanup(func() { _ = mine.Close(); <-done })
	go func() {
		defer close(done)
		defer theirs.Close()
		b := make([]byte, 64)
		for {
			n, err := theirs.Read(b)
			if err == nil {
				_, err = theirs.Write(b[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	b := make([]byte, 64)
	return repeat(func() error {
		if _, err := mine.Write(b); err != nil {
			return err
		}
		_, err := mine.Read(b)
		return err
	}), nil
}

// passFrames is the case of frames of a ring. The baseline fills the same memory, and passes it to nobody.
func passFrames(e *env, size int64, subscribers int) (trial, error) {
	size = e.bytes(size)
	senders, receivers, err := e.connections(subscribers, share.Options{})
	if err != nil {
		return trial{}, err
	}
	ring := share.Ring{Slots: 4, Shape: []int64{size}, DType: core.TypeUint8, Mode: share.Queue}
	p, err := senders[0].Publish(e.ctx, "frames", ring)
	if err != nil {
		return trial{}, err
	}
	e.cleanup(func() { _ = p.Close() })
	for _, c := range senders[1:] {
		if err := p.Offer(e.ctx, c); err != nil {
			return trial{}, err
		}
	}
	var subscriptions []*share.Subscription
	for _, c := range receivers {
		s, err := c.Subscribe(e.ctx, "frames", share.SubscribeOptions{})
		if err != nil {
			return trial{}, err
		}
		e.cleanup(func() { _ = s.Close() })
		subscriptions = append(subscriptions, s)
	}
	if err := p.WaitReaders(e.ctx, subscribers); err != nil {
		return trial{}, err
	}
	frame := make([]byte, size)
	pass := func() error {
		slot, err := p.Loan(e.ctx)
		if err != nil {
			return err
		}
		bytes, err := core.Mutable[uint8](slot)
		if err != nil {
			return err
		}
		copy(bytes, frame)
		if _, err := p.Send(e.ctx, slot); err != nil {
			return err
		}
		for _, s := range subscriptions {
			f, err := s.Receive(e.ctx)
			if err != nil {
				return err
			}
			f.Release()
		}
		return nil
	}
	slots := make([][]byte, ring.Slots)
	for i := range slots {
		slots[i] = make([]byte, size)
	}
	next := 0
	fill := func() error {
		copy(slots[next], frame)
		next = (next + 1) % len(slots)
		return nil
	}
	return trial{bytes: size, own: repeat(pass), baselines: []baseline{{name: "filling alone", sample: repeat(fill)}}}, nil
}
