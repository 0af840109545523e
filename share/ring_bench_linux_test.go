package share

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// The other processes of benchmarks. With the suffix asleep, both processes sleep whenever they wait.
const (
	childBare  = "bare "  // answers each word of a memfd
	childPong  = "pong "  // answers each frame of a ring
	childWatch = "watch " // receives the frames of a ring
	childHold  = "hold"   // subscribes to a ring, and receives nothing
	asleep     = "asleep"
	awake      = "awake"
)

var _ = []struct{}{
	role(childBare+awake, func() error { return bareChild(false) }),
	role(childBare+asleep, func() error { spinTime = 0; return bareChild(true) }),
	role(childPong+awake, pong),
	role(childPong+asleep, func() error { spinTime = 0; return pong() }),
	role(childWatch+awake, watch),
	role(childHold, hold),
	role(childFollow, func() error { return childsRing(childFollow) }),
	role(childQueue, func() error { return childsRing(childQueue) }),
	role(childLatest, func() error { return childsRing(childLatest) }),
}

// barePost writes a word, and wakes whoever sleeps on it.
func barePost(at *uint32, x uint32, sleeps bool) {
	atomic.StoreUint32(at, x)
	if sleeps {
		wake(at)
	}
}

// bareWait waits until a word has the value x.
func bareWait(at *uint32, x uint32, sleeps bool) {
	for {
		y := atomic.LoadUint32(at)
		if y == x {
			return
		}
		if sleeps {
			_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(at)), futexWait, uintptr(y), 0, 0, 0)
		}
	}
}

// bareChild answers words until it is killed.
func bareChild(sleeps bool) error {
	m, err := mapShared(3, 4096, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return err
	}
	for n := uint32(1); ; n++ {
		bareWait(m.u32(0), n, sleeps)
		barePost(m.u32(128), n, sleeps)
	}
}

// BenchmarkBarePingPong is the round trip of a word of a memfd between two processes, without this
// package: what two frames cost at least.
func BenchmarkBarePingPong(b *testing.B) {
	for _, how := range []string{awake, asleep} {
		b.Run(how, func(b *testing.B) {
			fd, err := unix.MemfdCreate("bare", unix.MFD_CLOEXEC)
			if err == nil {
				err = unix.Ftruncate(fd, 4096)
			}
			if err != nil {
				b.Fatal(err)
			}
			f := os.NewFile(uintptr(fd), "bare")
			defer f.Close()
			m, err := mapShared(fd, 4096, unix.PROT_READ|unix.PROT_WRITE)
			if err != nil {
				b.Fatal(err)
			}
			defer m.release()
			child := exec.CommandContext(b.Context(), "/proc/self/exe")
			child.Env = append(os.Environ(), childVariable+"="+childBare+how)
			child.ExtraFiles, child.Stderr = []*os.File{f}, os.Stderr
			if err := child.Start(); err != nil {
				b.Fatal(err)
			}
			n, sleeps := uint32(0), how == asleep
			round := func() {
				n++
				barePost(m.u32(0), n, sleeps)
				bareWait(m.u32(128), n, sleeps)
			}
			round() // the other process is there
			b.ReportAllocs()
			for b.Loop() {
				round()
			}
			_ = child.Process.Kill()
			_ = child.Wait()
		})
	}
}

var pingRing = Ring{Slots: 8, Shape: []int64{16}, DType: core.TypeUint64, Mode: Queue}

// pong answers each frame by one with its first word, until the connection ends.
func pong() error {
	ctx := context.Background()
	c, err := inherited(nil)
	if err != nil {
		return err
	}
	p, err := c.Publish(ctx, "answers", pingRing)
	if err != nil {
		return err
	}
	s, err := c.Subscribe(ctx, "frames", SubscribeOptions{})
	if err != nil {
		return err
	}
	for {
		word, err := receiveWord(ctx, s)
		if err == nil {
			err = sendWord(ctx, p, word)
		}
		if err != nil {
			return err
		}
	}
}

// sendWord sends a frame with a first word.
func sendWord(ctx context.Context, p *Publisher, word uint64) error {
	x, err := p.Loan(ctx)
	if err != nil {
		return err
	}
	words, err := core.Mutable[uint64](x)
	if err != nil {
		return err
	}
	words[0] = word
	_, err = p.Send(ctx, x)
	return err
}

// receiveWord receives a frame and returns its first word.
func receiveWord(ctx context.Context, s *Subscription) (uint64, error) {
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

// BenchmarkRingPingPong is the round trip of a small frame between two processes.
func BenchmarkRingPingPong(b *testing.B) {
	for _, how := range []string{awake, asleep} {
		b.Run(how, func(b *testing.B) {
			ctx := b.Context()
			if how == asleep {
				before := spinTime
				spinTime = 0
				defer func() { spinTime = before }()
			}
			c, _ := start(b, childPong+how, Options{})
			p, err := c.Publish(ctx, "frames", pingRing)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			s, err := c.Subscribe(ctx, "answers", SubscribeOptions{})
			if err != nil {
				b.Fatal(err)
			}
			if err := p.WaitReaders(ctx, 1); err != nil {
				b.Fatal(err)
			}
			n := uint64(0)
			round := func() {
				n++
				err := sendWord(ctx, p, n)
				got := uint64(0)
				if err == nil {
					got, err = receiveWord(ctx, s)
				}
				if err != nil || got != n {
					b.Fatalf("frame %d is answered by %d, error %v", n, got, err)
				}
			}
			round()
			b.ReportAllocs()
			for b.Loop() {
				round()
			}
		})
	}
}

// watch receives frames until the connection ends, and reads a word of each page.
func watch() error {
	ctx := context.Background()
	c, err := inherited(nil)
	if err != nil {
		return err
	}
	s, err := c.Subscribe(ctx, "frames", SubscribeOptions{})
	if err != nil {
		return err
	}
	for {
		if _, err := receiveWord(ctx, s); err != nil {
			return err
		}
	}
}

// BenchmarkRingFrames passes frames of 6 MiB, of which one word is written, to other processes.
func BenchmarkRingFrames(b *testing.B) {
	for _, readers := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			ctx := b.Context()
			var p *Publisher
			for i := range readers {
				c, _ := start(b, childWatch+awake, Options{})
				var err error
				if i == 0 {
					p, err = c.Publish(ctx, "frames", Ring{Slots: 8, Shape: []int64{6 << 17}, DType: core.TypeUint64, Mode: Queue})
				} else {
					err = p.Offer(ctx, c)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			defer p.Close()
			if err := p.WaitReaders(ctx, readers); err != nil {
				b.Fatal(err)
			}
			n := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				n++
				if err := sendWord(ctx, p, n); err != nil {
					b.Fatal(err)
				}
			}
			for _, r := range p.Readers() {
				if r.BytesCopied != 0 {
					b.Errorf("a frame is copied: %+v", r)
				}
			}
		})
	}
}

// BenchmarkRingDeath is the time from the kill of a subscriber that holds all slots until the
// publisher has the next one.
func BenchmarkRingDeath(b *testing.B) {
	r := pingRing
	r.Slots = 2
	for b.Loop() {
		b.StopTimer()
		c, child := start(b, childHold, Options{})
		p, err := c.Publish(b.Context(), "frames", r)
		if err == nil {
			err = p.WaitReaders(b.Context(), 1)
		}
		for range r.Slots {
			if err == nil {
				err = sendWord(b.Context(), p, 1)
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		_ = child.Kill()
		x, err := p.Loan(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		x.Close()
		_ = p.Close()
		b.StartTimer()
	}
}

// hold subscribes and receives nothing, until it is killed.
func hold() error {
	c, err := inherited(nil)
	if err == nil {
		_, err = c.Subscribe(context.Background(), "frames", SubscribeOptions{})
	}
	if err == nil {
		<-c.Done()
	}
	return err
}
