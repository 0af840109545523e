//go:build ucx && linux && cgo

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func init() {
	runChild = childsTraffic
	if os.Getenv(benchVariable) != "" {
		runChild = benchPeer
	}
	if os.Getenv(cardVariable) != "" {
		runChild = cardPeer
	}
	if os.Getenv(swapVariable) != "" {
		runChild = swapPeer
	}
}

// childsTraffic sends and receives tensors until the connection ends.
func childsTraffic(address string) {
	err := func() error {
		d, err := cpu.New().Open(context.Background(), core.CPU)
		if err != nil {
			return err
		}
		c, err := Dial(context.Background(), address, Options{Insecure: true})
		if err != nil {
			return err
		}
		return traffic(c, d, func() {})
	}()
	if !errors.As(err, new(*ConnError)) {
		fmt.Fprintf(os.Stderr, "the other process: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// trafficSizes have tensors that come with a message, and that are fetched in one and in several pieces.
var trafficSizes = []int{100, 50_000, 2*pieceBytes + 7}

// traffic sends tensors, receives as many, and returns why that has ended. It calls seen for each that was received.
func traffic(c *Conn, d core.Device, seen func()) error {
	sent := make(chan error, 1)
	go func() {
		sent <- func() error {
			for i := 0; ; i++ {
				x, err := core.FromSlice(coretest.Pattern(trafficSizes[i%len(trafficSizes)], uint64(i)))
				if err != nil {
					return err
				}
				_, err = c.SendLabeled(context.Background(), x, fmt.Sprint(i))
				x.Close()
				if err != nil {
					return err
				}
			}
		}()
	}()
	received := func() error {
		for i := 0; ; i++ {
			y, r, err := c.Receive(context.Background(), d)
			if err != nil {
				return err
			}
			got, err := core.Values[uint8](y)
			want := coretest.Pattern(trafficSizes[i%len(trafficSizes)], uint64(i))
			whole := err == nil && string(got) == string(want) && r.Label == fmt.Sprint(i)
			y.Close()
			if !whole {
				return fmt.Errorf("tensor %d, %q, arrived torn: %w", i, r.Label, err)
			}
			seen()
		}
	}()
	_ = c.Close()
	return errors.Join(received, <-sent)
}

// child starts the other process, whose connection l accepts.
func child(t *testing.T, l *Listener) *exec.Cmd {
	t.Helper()
	p := exec.Command(os.Args[0])
	p.Env = append(os.Environ(), childVariable+"="+l.Addr().String())
	p.Stderr = os.Stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	return p
}

// needForcedClose skips a test in which peers die. See DESIGN.md on UCX 1.16.
func needForcedClose(t *testing.T) {
	t.Helper()
	if strings.HasPrefix(Version(), "1.16.") {
		t.Skip("UCX 1.16 may crash when an endpoint is closed whose peer has died")
	}
}

// Processes are killed at random moments. The survivor gets a typed error at once, no tensor is torn, nothing stays open, and
// another connection of the same listener goes on.
func TestKilledProcesses(t *testing.T) {
	needForcedClose(t)
	kills := coretest.Times(5, 20, 500)
	coretest.CheckNoLeaks(t)
	d := host(t)
	o := Options{Insecure: true, KeepAlive: time.Minute} // it is the end of the process that is noticed
	l, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := Dial(t.Context(), l.Addr().String(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	x := row(t, 50_000, 1)
	for range 3 { // UCX closes sockets that it does not need while it connects the sides
		pass(t, a, b, x, d)
		pass(t, b, a, x, d)
	}
	before := coretest.Descriptors()
	tensors := 0
	for i := range kills {
		p := child(t, l)
		after := rand.IntN(30)
		c, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if after == 0 {
			_ = p.Process.Kill()
		}
		timer := time.AfterFunc(time.Duration(1+rand.IntN(50))*time.Millisecond, func() { _ = p.Process.Kill() })
		if i%2 == 0 {
			timer.Stop()
		}
		err = traffic(c, d, func() {
			tensors++
			if n++; n == after && i%2 == 0 {
				_ = p.Process.Kill()
			}
		})
		timer.Stop()
		_ = p.Process.Kill()
		_ = p.Wait()
		var typed *ConnError
		if !errors.As(err, &typed) || !errors.Is(err, core.ErrClosed) {
			t.Errorf("the survivor has the error %v", err)
		}
		if s := c.Stats(); s.Waiting != 0 {
			t.Errorf("afterwards: %+v", s)
		}
		y, _, _ := pass(t, a, b, x, d)
		wantEqual(t, x, y)
	}
	t.Logf("%d processes were killed; %d tensors arrived whole", kills, tensors)
	coretest.WantDescriptors(t, before, "afterwards")
}

// A process that is stopped is noticed after KeepAlive. Its memory and its offers are free then.
func TestAStoppedProcess(t *testing.T) {
	d := host(t)
	l, err := Listen("127.0.0.1:0", Options{Insecure: true, KeepAlive: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := child(t, l)
	c, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x := row(t, 10*pieceBytes, 1)
	f := offer(t, c, x, OfferOptions{})
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, err = c.Send(t.Context(), x)
	for err == nil { // it was read before the process has stopped
		_, err = c.Send(t.Context(), x)
	}
	var typed *ConnError
	if !errors.As(err, &typed) || !errors.Is(err, core.ErrClosed) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Send to a stopped process returned %v", err)
	}
	for err = nil; err == nil; { // what had arrived before
		_, _, err = c.Receive(t.Context(), d)
	}
	if !errors.As(err, &typed) {
		t.Errorf("Receive from a stopped process returned %v", err)
	}
	_ = c.Close()
	<-f.Done()
	if err := x.WaitIdle(t.Context()); err != nil {
		t.Error(err)
	}
}

// The TCP connection of the control messages is cut, while UCX could go on.
func TestACutControlConnection(t *testing.T) {
	d := host(t)
	o := Options{Token: make([]byte, 16), KeepAlive: time.Minute}
	l, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	between, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer between.Close()
	sockets := make(chan net.Conn, 2)
	go func() {
		from, err := between.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			_ = from.Close()
			return
		}
		sockets <- from
		sockets <- to
		go func() { _, _ = io.Copy(from, to) }()
		_, _ = io.Copy(to, from)
	}()
	a, err := Dial(t.Context(), between.Addr().String(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	x := row(t, 100_000, 1)
	pass(t, a, b, x, d)
	results := make(chan error, 2)
	go func() {
		_, _, err := b.Receive(t.Context(), d)
		results <- err
	}()
	go func() {
		_, _, err := a.Receive(t.Context(), d)
		results <- err
	}()
	_ = (<-sockets).Close()
	_ = (<-sockets).Close()
	for range 2 {
		var typed *ConnError
		if err := <-results; !errors.As(err, &typed) || !errors.Is(err, core.ErrClosed) {
			t.Errorf("after the cut: %v", err)
		}
	}
}

// A peer that connects and says nothing does not keep others from the listener, and ends with it.
func TestASilentPeer(t *testing.T) {
	o := Options{Insecure: true}
	l, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	silent, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	a, err := Dial(t.Context(), l.Addr().String(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	_ = l.Close()
	_, _ = io.Copy(io.Discard, silent) // until the listener closes it
}

// A side that shows no sign of life for the other one's KeepAlive learns that this was why.
func TestASilentSideLearnsWhy(t *testing.T) {
	l, err := Listen("127.0.0.1:0", Options{Insecure: true, KeepAlive: 2 * minAlive})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := Dial(t.Context(), l.Addr().String(), Options{Insecure: true, KeepAlive: maxAlive})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.writing <- struct{}{} // it says nothing more
	<-a.Done()
	<-a.writing
	if err := a.Err(); !errors.Is(err, core.ErrClosed) || !errors.Is(err, os.ErrDeadlineExceeded) || endName(err) != "silent" || !strings.HasSuffix(err.Error(), "longer than its keep-alive") {
		t.Errorf("the side that was silent has the error %v", err)
	}
}
