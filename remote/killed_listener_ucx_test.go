//go:build ucx && linux && cgo

package remote

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// offeringVariable makes the test binary a process that listens, offers a tensor, accepts connections, and receives nothing.
const offeringVariable = "DLX_REMOTE_OFFERING"

func init() {
	if os.Getenv(offeringVariable) != "" {
		runChild = func(string) {
			fmt.Fprintln(os.Stderr, childsOffer())
			os.Exit(1)
		}
	}
}

const offeredBytes = 3 * pieceBytes

func childsOffer() error {
	l, err := Listen("127.0.0.1:0", Options{Insecure: true})
	if err != nil {
		return err
	}
	x, err := core.FromSlice(coretest.Pattern(offeredBytes, 0), 12, pieceBytes/4)
	if err != nil {
		return err
	}
	f, err := l.Offer(x, OfferOptions{Writable: true})
	if err != nil {
		return err
	}
	fmt.Printf("%x\n", f.Descriptor())
	go func() { // for each line, gives back what Go's collector keeps
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			debug.FreeOSMemory()
			fmt.Println("free")
		}
	}()
	return l.Serve(context.Background())
}

// offeringProcess is such a process.
type offeringProcess struct {
	*exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

// free makes the process give back what Go's collector keeps.
func (p *offeringProcess) free(t *testing.T) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in); err != nil {
		t.Fatal(err)
	}
	if line, _, err := p.out.ReadLine(); err != nil || string(line) != "free" {
		t.Fatalf("the other process says %q: %v", line, err)
	}
}

// offering starts such a process, and returns the descriptor.
func offering(t *testing.T) (*offeringProcess, []byte) {
	t.Helper()
	p := exec.Command(os.Args[0])
	p.Env = append(os.Environ(), childVariable+"=-", offeringVariable+"=1")
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	other := &offeringProcess{Cmd: p, in: in, out: bufio.NewReader(out)}
	line, _, err := other.out.ReadLine()
	if err != nil {
		t.Fatal(err)
	}
	descriptor, err := hex.DecodeString(string(line))
	if err != nil {
		t.Fatal(err)
	}
	return other, descriptor
}

// Processes that listen are killed while this one reads and overwrites their tensor, sends what they never receive, or
// gathers a tensor from two of them. Errors are typed, memory is free, no element is wrong, and another connection goes on.
func TestKilledListeners(t *testing.T) {
	needForcedClose(t)
	kills := coretest.Times(3, 12, 250)
	coretest.CheckNoLeaks(t)
	d := host(t)
	a, b := connect(t, Options{KeepAlive: time.Minute})
	x := row(t, 50_000, 1)
	pass(t, a, b, x, d)
	before := 0
	for i := range kills {
		p, descriptor := offering(t)
		kill := func() {
			time.AfterFunc(time.Duration(rand.IntN(20_000))*time.Microsecond, func() { _ = p.Process.Kill() })
		}
		if i%3 == 2 {
			gatherWhileOneDies(t, d, descriptor, kill)
		} else {
			until := readAndOverwrite
			if i%3 == 1 {
				until = sendToNobody
			}
			untilItDies(t, d, descriptor, kill, until)
		}
		_ = p.Process.Kill()
		_ = p.Wait()
		y, _, _ := pass(t, a, b, x, d)
		wantEqual(t, x, y)
		if i == 0 { // what earlier tests have left to be closed is closed by now
			before = coretest.SettledDescriptors()
		}
	}
	if now := coretest.SettledDescriptors(); now > before {
		t.Errorf("%d descriptors are open, and after the first kill there were %d", now, before)
	}
}

// Processes are killed while this one connects to them. Either the call fails, or the connection ends.
func TestKilledInTheHandshake(t *testing.T) {
	needForcedClose(t)
	needNoLeak(t)
	kills := coretest.Times(5, 20, 500)
	coretest.CheckNoLeaks(t)
	for range kills {
		p, descriptor := offering(t)
		about, err := Describe(descriptor)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(rand.IntN(6_000))*time.Microsecond, func() { _ = p.Process.Kill() })
		c, err := Dial(t.Context(), about.Address, Options{Insecure: true, KeepAlive: time.Minute})
		if err == nil {
			<-c.Done()
			err = c.Err()
			_ = c.Close()
		}
		if !errors.Is(err, core.ErrClosed) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the survivor has the error %v", err)
		}
		_ = p.Wait()
	}
}

// untilItDies connects, and calls use until it fails because the process was killed.
func untilItDies(t *testing.T, d core.Device, descriptor []byte, kill func(), use func(*testing.T, core.Device, *Conn, []byte) error) {
	about, err := Describe(descriptor)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), about.Address, Options{Insecure: true, KeepAlive: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	kill()
	err = use(t, d, c, descriptor)
	var typed *ConnError
	if !errors.As(err, &typed) || !errors.Is(err, core.ErrClosed) {
		t.Errorf("the survivor has the error %v", err)
	}
}

func readAndOverwrite(t *testing.T, d core.Device, c *Conn, descriptor []byte) error {
	for seed := uint64(0); ; seed++ {
		y, _, err := c.Fetch(t.Context(), descriptor, d)
		if err != nil {
			return err
		}
		x, err := core.FromSlice(coretest.Pattern(offeredBytes, seed), 12, pieceBytes/4)
		if err != nil {
			return err
		}
		wantEqual(t, x, y)
		_, _ = x.Close(), y.Close()
		if x, err = core.FromSlice(coretest.Pattern(offeredBytes, seed+1), 12, pieceBytes/4); err != nil {
			return err
		}
		_, err = c.Put(t.Context(), descriptor, x)
		idle := c.Close
		if err == nil {
			idle = func() error { return nil }
		}
		if err := errors.Join(idle(), x.WaitIdle(t.Context())); err != nil {
			t.Errorf("the memory of a Put is in use: %v", err)
		}
		_ = x.Close()
		if err != nil {
			return err
		}
	}
}

// sendToNobody waits in Send.
func sendToNobody(t *testing.T, _ core.Device, c *Conn, _ []byte) error {
	x := row(t, offeredBytes, 1)
	for {
		if _, err := c.Send(t.Context(), x); err != nil {
			_ = c.Close()
			if err := x.WaitIdle(t.Context()); err != nil {
				t.Errorf("the memory is in use: %v", err)
			}
			return err
		}
	}
}

// gatherWhileOneDies gathers a tensor from the process and another one, which lives.
func gatherWhileOneDies(t *testing.T, d core.Device, descriptor []byte, kill func()) {
	lives, other := offering(t)
	kill()
	y, r, err := Gather(t.Context(), []Part{{Descriptor: descriptor}, {Descriptor: other}}, d, Options{Insecure: true, KeepAlive: time.Minute})
	if err != nil {
		t.Fatalf("%v: %+v", err, r.Sources)
	}
	x, err := core.FromSlice(coretest.Pattern(offeredBytes, 0), 12, pieceBytes/4)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, x, y)
	_, _ = x.Close(), y.Close()
	_ = lives.Process.Kill()
	_ = lives.Wait()
}

// A program gives up while it dials a listener that sends tensors at once, which come before the connection is there.
func TestCancelledDials(t *testing.T) {
	needNoLeak(t)
	if strings.Contains(os.Getenv("UCX_TLS"), "posix") {
		t.Skip("UCX over posix may end the process where a peer has just closed its memory: see DESIGN.md")
	}
	coretest.CheckNoLeaks(t)
	o := Options{Insecure: true}
	l, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		for {
			c, err := l.Accept(t.Context())
			if err != nil {
				return
			}
			sending.Go(func() {
				defer c.Close()
				for x := row(t, 100, 1); err == nil; {
					_, err = c.Send(t.Context(), x)
				}
			})
		}
	})
	d := host(t)
	for range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(13))*time.Millisecond)
		c, err := Dial(ctx, l.Addr().String(), o)
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			continue
		}
		x, _, err := c.Receive(t.Context(), d)
		if err != nil {
			t.Error(err)
		}
		_, _ = x.Close(), c.Close()
	}
	_ = l.Close()
}

// needNoLeak skips a test of peers that end while this process connects, under a sanitizer and unless over TCP: where the shared memory of
// a peer is gone, UCX loses the table of the endpoint that it was making (uct_mm_ep_t, src/uct/sm/mm/base/mm_ep.c).
func needNoLeak(t *testing.T) {
	t.Helper()
	if coretest.Sanitized && !strings.HasPrefix(os.Getenv("UCX_TLS"), "tcp") {
		t.Skip("UCX loses some bytes where the shared memory of a peer is gone, which the address sanitizer reports")
	}
}
