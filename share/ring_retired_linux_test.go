//go:build cgo

package share

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// childHoarder holds frames of a device, ends its connection without a goodbye, and lives on until it is killed.
const childHoarder = "hoarder"

var _ = role(childHoarder, hoard)

func hoard() error {
	ctx := context.Background()
	x, err := openCard(ctx)
	if err != nil {
		return err
	}
	c, err := Dial(ctx, filepath.Join(os.Getenv(folderVariable), "socket"), of(x.device))
	if err != nil {
		return err
	}
	s, err := c.Subscribe(ctx, "frames", SubscribeOptions{Device: x.device})
	if err != nil {
		return err
	}
	for range cardRing.Slots {
		if _, err := s.Receive(ctx); err != nil {
			return err
		}
	}
	err = c.socket.Close()
	fmt.Println("gone")
	if err != nil {
		return err
	}
	select {}
}

var cardRing = Ring{Slots: 3, Shape: []int64{workWords}, DType: core.TypeInt32, Mode: Queue}

// cardFrame publishes a frame of equal elements on a device.
func cardFrame(t testing.TB, p *Publisher, value int32) RingReport {
	t.Helper()
	x, err := p.Loan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	from, err := core.FromSlice(slices.Repeat([]int32{value}, workWords), workWords)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if err := x.Device().Copy(t.Context(), nil, x, from); err != nil {
		t.Fatal(err)
	}
	r, err := p.Send(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// publishOn makes a ring in the memory of a card. The test closes it.
func publishOn(t testing.TB, c *Conn, x *card) *Publisher {
	t.Helper()
	r := cardRing
	r.Device = x.device
	return publish(t, c, r)
}

// Slots of a device that a process held are not written before that process has ended: its work may go on when the end of
// its connection is known.
func TestSlotsWaitForTheEndOfAProcess(t *testing.T) {
	x := newCard(t)
	coretest.CheckNoLeaks(t)
	before := coretest.Descriptors()
	folder := t.TempDir()
	o := of(x.device)
	o.exitTime = time.Hour
	l, err := Listen(filepath.Join(folder, "socket"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), childVariable+"="+childHoarder, folderVariable+"="+folder)
	child.Stderr = os.Stderr
	said, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _, _ = child.Process.Kill(), child.Wait() }
	defer kill()
	c, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := publishOn(t, c, x)
	if err := p.WaitReaders(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for n := range int32(3) {
		cardFrame(t, p, n)
	}
	if _, err := bufio.NewReader(said).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	<-c.ended
	_, err = p.Loan(briefly(t))
	wantBlocked(t, "a slot while the process lives", err)
	if n := len(p.Readers()); n != 0 {
		t.Errorf("%d readers are left", n)
	}
	kill()
	for n := range int32(2 * 3) {
		cardFrame(t, p, n)
	}
	_ = p.Close()
	_ = l.Close()
	_ = said.Close()
	coretest.WantDescriptors(t, before, "afterwards")
}

// Close of a subscriber's connection waits for the work that reads frames, also of released ones: the publisher
// writes their slots again.
func TestCloseWaitsForWorkThatReadsFrames(t *testing.T) {
	a, b := newCard(t), newCard(t)
	for _, end := range []string{"released", "held", "closed"} {
		t.Run(end, func(t *testing.T) {
			sender, receiver := connected(t, patient(a.options(), time.Hour), patient(b.options(), time.Hour))
			p := publishOn(t, sender, a)
			s, err := receiver.Subscribe(t.Context(), "frames", SubscribeOptions{Device: b.device})
			if err != nil {
				t.Fatal(err)
			}
			w := begun(t, b)
			cardFrame(t, p, 7)
			f, err := s.Receive(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			z := w.read(t, f.Tensor())
			switch end {
			case "released":
				f.Release()
			case "closed":
				f.Release()
				_ = s.Close()
			}
			wantCloseWaits(t, receiver, w)
			<-sender.ended
			for n := range int32(3) { // every slot
				cardFrame(t, p, n)
			}
			wantWords(t, z, 7)
			f.Release()
			_ = s.Close()
		})
	}
}

// The same holds for tensors, whether they are closed or not.
func TestCloseWaitsForWorkThatReadsTensors(t *testing.T) {
	a, b := newCard(t), newCard(t)
	for _, closed := range []bool{false, true} {
		sender, receiver := connected(t, patient(a.options(), time.Hour), patient(b.options(), time.Hour))
		x := onCard(t, a.device, opaqueFD)
		if err := a.device.Copy(t.Context(), nil, x, numbers(t, workWords)); err != nil {
			t.Fatal(err)
		}
		send(t, sender, x)
		y, _ := receive(t, receiver, b.device)
		w := begun(t, b)
		z := w.read(t, y)
		if closed {
			_ = y.Close()
		}
		wantCloseWaits(t, receiver, w)
		if err := z.WaitReady(t.Context()); err != nil {
			t.Error(err)
		}
		_ = y.Close()
	}
}

// read enqueues a copy of a tensor that does not begin before it is let go.
func (w *work) read(t testing.TB, from *core.Tensor) *core.Tensor {
	t.Helper()
	w.turn++
	if err := w.wait.WaitOn(w.stream, w.turn); err != nil {
		t.Fatal(err)
	}
	return copied(t, from.Device(), w.stream, from)
}

// wantCloseWaits closes a connection, and fails unless that waits for work.
func wantCloseWaits(t testing.TB, c *Conn, w *work) {
	t.Helper()
	closed := make(chan error)
	go func() { closed <- c.Close() }()
	select {
	case err := <-closed:
		t.Errorf("Close has not waited for work that reads: %v", err)
		closed = nil
	case <-time.After(30 * time.Millisecond):
	}
	if err := w.let(); err != nil {
		t.Fatal(err)
	}
	if closed != nil {
		<-closed
	}
	if err := c.Err(); !errors.Is(err, core.ErrClosed) {
		t.Error(err)
	}
}
