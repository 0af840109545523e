package share

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// host opens the device of the host. The test closes it.
func host(t testing.TB) core.Device {
	t.Helper()
	d, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("closing the host's device: %v", err)
		}
	})
	return d
}

// pair returns the two ends of a socketpair.
func pair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return unixConn(t, fds[0]), unixConn(t, fds[1])
}

// unixConn makes a connection of a descriptor, which it takes.
func unixConn(t testing.TB, fd int) *net.UnixConn {
	t.Helper()
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.UnixConn)
}

// connected returns two connections to each other.
func connected(t testing.TB, oa, ob Options) (a, b *Conn) {
	t.Helper()
	x, y := pair(t)
	return made(t, x, oa), made(t, y, ob)
}

func made(t testing.TB, s *net.UnixConn, o Options) *Conn {
	t.Helper()
	c, err := New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// patient returns o with how long the end of the connection waits for work.
func patient(o Options, d time.Duration) Options {
	o.patience = d
	return o
}

func of(devices ...core.Device) Options { return Options{Devices: devices} }

// shareable makes a tensor of the numbers from 0 on, in memory that the device exports.
func shareable(t testing.TB, d core.Device, n int64, o core.AllocOptions) *core.Tensor {
	t.Helper()
	x, err := core.Empty(t.Context(), d, core.TypeInt32, []int64{n}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	if err := d.Copy(t.Context(), nil, x, numbers(t, n)); err != nil {
		t.Fatal(err)
	}
	return x
}

// numbers makes a tensor of 0, 1, 2... in a slice.
func numbers(t testing.TB, n int64) *core.Tensor {
	t.Helper()
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
	}
	x, err := core.FromSlice(list, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

var memfd = core.AllocOptions{Export: core.HandleMemFD}

func send(t testing.TB, c *Conn, x *core.Tensor) Report {
	t.Helper()
	r, err := c.Send(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// receive receives a tensor, which the test closes.
func receive(t testing.TB, c *Conn, d core.Device) (*core.Tensor, Report) {
	t.Helper()
	x, r, err := c.Receive(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x, r
}

// values reads the elements of a tensor of the host.
func values(t testing.TB, x *core.Tensor) []int32 {
	t.Helper()
	all, err := core.All[int32](x)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(all)
}

// released waits until the peer has released all tensors.
func released(t testing.TB, c *Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := c.WaitReleased(ctx); err != nil {
		t.Fatalf("waiting until the peer has released the tensors: %v", err)
	}
}

// until waits until ok returns true.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 10 seconds: %s", what)
		}
	}
}

func TestHostMemoryIsShared(t *testing.T) {
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	x := shareable(t, d, 1000, memfd)
	for round := range 3 {
		r := send(t, a, x)
		if r.Mechanism != exchange.Map || r.BytesCopied != 0 || r.Opened != (round == 0) || r.Handle != core.HandleMemFD || r.Wait != stream.NoWait {
			t.Errorf("round %d: %+v", round, r)
		}
		y, r := receive(t, b, e)
		if r.Mechanism != exchange.Map || r.BytesCopied != 0 || r.Opened != (round == 0) || r.To != core.CPU {
			t.Errorf("round %d, received: %+v", round, r)
		}
		if got := values(t, y); !slices.Equal(got, values(t, x)) {
			t.Fatalf("round %d: %v", round, got)
		}
		into, err := core.MutableWithoutWaiting[int32](x)
		if err != nil {
			t.Fatal(err)
		}
		into[7]++ // without a copy, the other side sees it
		if got := values(t, y)[7]; got != into[7] {
			t.Errorf("a write of the sender does not arrive: %d", got)
		}
		y.Close()
	}
	released(t, a)
	if s := a.Stats(); s.Sent != 3 || s.Released != 3 || s.MemoriesSent != 1 || s.BytesCopied != 0 || s.BytesSent != 12000 {
		t.Errorf("sent: %+v", s)
	}
	if s := b.Stats(); s.Received != 3 || s.MemoriesOpened != 1 || s.BytesReceived != 12000 {
		t.Errorf("received: %+v", s)
	}
}

func TestViewsArriveAsTheyAre(t *testing.T) {
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	x := shareable(t, d, 60, memfd)
	whole, err := x.Reshape(3, 4, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	turned, err := whole.Permute(2, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer turned.Close()
	part, err := turned.Slice(0, 1, 4, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer part.Close()
	for _, v := range []*core.Tensor{whole, turned, part} {
		send(t, a, v)
		y, _ := receive(t, b, nil)
		if !slices.Equal(y.Shape(), v.Shape()) || !slices.Equal(y.Layout().Strides(), v.Layout().Strides()) || !slices.Equal(values(t, y), values(t, v)) {
			t.Errorf("%v arrives as %v: %v", v, y, values(t, y))
		}
	}
	if s := a.Stats(); s.MemoriesSent != 1 {
		t.Errorf("%d memories were passed for views of one", s.MemoriesSent)
	}
}

func TestLabels(t *testing.T) {
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	x := shareable(t, d, 10, memfd)
	for _, label := range []string{"", "weights", strings.Repeat("\xff", maxLabel)} {
		if _, err := a.SendLabeled(t.Context(), x, label); err != nil {
			t.Fatal(err)
		}
		if _, r := receive(t, b, e); r.Label != label {
			t.Errorf("the label %q arrives as %q", label, r.Label)
		}
	}
	if _, err := a.SendLabeled(t.Context(), x, strings.Repeat("x", maxLabel+1)); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a label that is too long: %v", err)
	}
}

func TestATensorWithoutElements(t *testing.T) {
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	for _, device := range []core.Device{nil, e} {
		x := shareable(t, d, 0, core.AllocOptions{})
		if r := send(t, a, x); r.BytesCopied != 0 || r.Opened {
			t.Errorf("sent: %+v", r)
		}
		y, _ := receive(t, b, device)
		if !slices.Equal(y.Shape(), []int64{0}) || y.DType() != core.TypeInt32 {
			t.Errorf("received %v", y)
		}
	}
	released(t, a)
}

// Memory of a slice is copied once, and the report says why.
func TestWhatCannotBeSharedIsCopied(t *testing.T) {
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	x := numbers(t, 100)
	r := send(t, a, x)
	if r.Mechanism != exchange.Direct || r.BytesCopied != 400 || len(r.Refused()) == 0 || len(r.Steps()) != 2 {
		t.Errorf("%v", r)
	}
	y, _ := receive(t, b, e)
	into, err := core.Mutable[int32](x)
	if err != nil {
		t.Fatal(err)
	}
	into[3] = -1 // of the copy the receiver sees nothing
	if got := values(t, y); got[3] != 3 || len(got) != 100 {
		t.Errorf("received %v", got)
	}
	y.Close()
	released(t, a)
	until(t, "the peer forgets the memory of the copy", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.opened) == 0 })
}

func TestReadOnly(t *testing.T) {
	d, e := host(t), host(t)
	for _, option := range []bool{false, true} {
		a, b := connected(t, Options{Devices: []core.Device{d}, ReadOnly: option}, of(e))
		x := shareable(t, d, 10, memfd)
		frozen, err := core.NewTensor(buffer(t, x), core.Spec{DType: core.TypeInt32, Shape: []int64{10}, Flags: core.FlagReadOnly})
		if err != nil {
			t.Fatal(err)
		}
		defer frozen.Close()
		for _, v := range []*core.Tensor{x, frozen} {
			send(t, a, v)
			y, _ := receive(t, b, e)
			if want := option || v == frozen; y.ReadOnly() != want {
				t.Errorf("option %t: %v is read-only: %t", option, v, y.ReadOnly())
			}
		}
	}
}

func buffer(t testing.TB, x *core.Tensor) *core.Buffer {
	t.Helper()
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The sender's memory lives until the receiver has closed all that it made of the tensor.
func TestALeaseEndsWithTheLastUseOfTheReceiver(t *testing.T) {
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	x := shareable(t, d, 100, memfd)
	send(t, a, x)
	y, _ := receive(t, b, e)
	view, err := y.Slice(0, 10, 20, 1)
	if err != nil {
		t.Fatal(err)
	}
	work := stream.NewEvent()
	buffer(t, y).Used(work) // work of the receiver that is unfinished
	y.Close()
	view.Close()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := x.WaitIdle(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the sender may overwrite what work of the receiver reads: %v", err)
	}
	x.Close()
	if n := a.Stats().InFlight; n != 1 {
		t.Errorf("%d tensors in flight, want 1", n)
	}
	work.Complete(nil)
	released(t, a)
	until(t, "the peer forgets the memory", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.opened) == 0 })
}

// The elements are there when they arrive, also if they were written late.
func TestSendWaitsForTheLastWrite(t *testing.T) {
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	x := shareable(t, d, 10, memfd)
	work := stream.NewEvent()
	buffer(t, x).Wrote(work)
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := a.Send(short, x); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Send did not wait for the write: %v", err)
	}
	work.Complete(nil)
	send(t, a, x)
	receive(t, b, e)
	failed := stream.NewEvent()
	buffer(t, x).Wrote(failed)
	failed.Complete(core.ErrDeviceLost)
	if _, err := a.Send(t.Context(), x); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("a tensor whose write failed was sent: %v", err)
	}
}

func TestLimitsHoldSendBack(t *testing.T) {
	d, e := host(t), host(t)
	a, b := connected(t, of(d), Options{Devices: []core.Device{e}, Limits: Limits{Tensors: 2, Memories: 2, Bytes: 3 * int64(os.Getpagesize())}})
	x := shareable(t, d, 10, memfd)
	send(t, a, x)
	send(t, a, x)
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := a.Send(short, x); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a third tensor: %v", err)
	}
	y, _ := receive(t, b, e)
	y.Close()
	send(t, a, x) // there is room again
	for range 2 {
		y, _ := receive(t, b, e)
		y.Close()
	}
	// A memory whose tensors were released makes room for another one.
	released(t, a)
	for range 5 {
		send(t, a, shareable(t, d, 10, memfd))
		y, _ := receive(t, b, e)
		y.Close()
		released(t, a)
	}
	if _, err := a.Send(t.Context(), shareable(t, d, 4096, memfd)); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("more than the peer permits at all: %v", err)
	}
	send(t, a, x)
	receive(t, b, e)
}

func TestTheEndOfAConnection(t *testing.T) {
	d, e := host(t), host(t)
	for _, c := range []struct {
		name string
		end  func(a *Conn, raw *net.UnixConn)
		here error // for the side that ends it; nil if that is not a connection
		want []error
	}{
		{"closed", func(a *Conn, _ *net.UnixConn) { _ = a.Close() }, net.ErrClosed, []error{core.ErrClosed, io.EOF}},
		{"killed", func(_ *Conn, raw *net.UnixConn) { _ = unixShutdown(raw) }, io.ErrUnexpectedEOF, []error{core.ErrClosed, io.ErrUnexpectedEOF}},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw, other := pair(t)
			a, b := made(t, raw, of(d)), made(t, other, of(e))
			x := shareable(t, d, 10, memfd)
			send(t, a, x)
			y, _ := receive(t, b, e)
			waiting := make(chan error, 1)
			go func() {
				_, _, err := b.Receive(context.Background(), e)
				waiting <- err
			}()
			c.end(a, raw)
			err := <-waiting
			var typed *ConnError
			if !errors.As(err, &typed) || typed.Peer.PID != int32(os.Getpid()) {
				t.Errorf("the error does not name the peer: %v", err)
			}
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("%v is not %v", err, want)
				}
			}
			<-a.Done()
			if err := a.Err(); !errors.Is(err, core.ErrClosed) || !errors.Is(err, c.here) {
				t.Errorf("at the side that ended: %v", err)
			}
			if _, err := b.Send(t.Context(), x); !errors.As(err, &typed) {
				t.Errorf("Send afterwards: %v", err)
			}
			if err := x.WaitIdle(t.Context()); err != nil { // the lease is over
				t.Error(err)
			}
			if got := values(t, y); got[9] != 9 {
				t.Errorf("the memory has gone: %v", got)
			}
		})
	}
}

// A program that reads elements in place, and then asks, learns that the peer could have overwritten them.
func TestErrKnowsOfTheEndBeforeTheReaderDoes(t *testing.T) {
	for range 100 {
		mine, theirs := pair(t)
		c, peer := made(t, mine, Options{}), &intruder{t: t, socket: theirs}
		peer.hello()
		if err := c.Handshake(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Err(); err != nil {
			t.Errorf("an open connection: %v", err)
		}
		_ = theirs.Close()
		if err := c.Err(); !errors.Is(err, core.ErrClosed) || !errors.As(err, new(*ConnError)) {
			t.Fatalf("the peer has closed the connection: %v", err)
		}
		_ = c.Close()
	}
}

// What a side has released just before it closes the connection is released, and not lost.
func TestReleasesPrecedeTheEnd(t *testing.T) {
	d, e := host(t), host(t)
	for range 20 {
		a, b := connected(t, of(d), of(e))
		for range 10 {
			send(t, a, shareable(t, d, 10, memfd))
			y, _ := receive(t, b, e)
			y.Close()
		}
		_ = b.Close()
		if err := a.WaitReleased(t.Context()); err != nil {
			t.Fatal(err)
		}
		a, b = connected(t, of(d), of(e))
		send(t, a, shareable(t, d, 10, memfd))
		receive(t, b, e)
		_ = b.Close()
		if err := a.WaitReleased(t.Context()); !errors.Is(err, io.EOF) {
			t.Fatalf("a tensor that was not released: %v", err)
		}
	}
}

// unixShutdown ends a socket as the end of its process does.
func unixShutdown(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

func TestWrongArguments(t *testing.T) {
	d := host(t)
	a, _ := connected(t, of(d), of(d))
	if _, err := a.Send(t.Context(), nil); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Send(nil): %v", err)
	}
	closed := numbers(t, 1)
	closed.Close()
	if _, err := a.Send(t.Context(), closed); !errors.Is(err, core.ErrClosed) {
		t.Errorf("Send of a closed tensor: %v", err)
	}
	var none *Conn
	for call, err := range map[string]error{
		"Send":         second(none.Send(t.Context(), numbers(t, 1))),
		"Handshake":    none.Handshake(t.Context()),
		"WaitReleased": (&Conn{}).WaitReleased(t.Context()),
		"New":          second(New(nil, of(d))),
	} {
		if !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s without a connection: %v", call, err)
		}
	}
	var nobody *Listener
	for call, err := range map[string]error{
		"Receive": third(none.Receive(t.Context(), nil)), "Err": none.Err(), "Err of the zero Conn": new(Conn).Err(),
		"Accept": second(nobody.Accept(t.Context())), "Accept of the zero Listener": second(new(Listener).Accept(t.Context())),
	} {
		if !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s without a connection: %v", call, err)
		}
	}
	if err := errors.Join(none.Close(), new(Conn).Close(), nobody.Close(), new(Listener).Close()); err != nil {
		t.Error(err)
	}
	if none.Done() != nil || none.Stats() != (Stats{}) || none.Peer().PID != 0 || new(Conn).Peer().PID != 0 || nobody.Path() != "" {
		t.Error("a connection that there is not has a state")
	}
	for _, o := range []Options{{Devices: []core.Device{nil}}, {Limits: Limits{Tensors: -1}}, {Limits: Limits{Memories: 1 << 20}}, {Mode: os.ModeDir}} {
		if _, err := Listen(filepath.Join(t.TempDir(), "socket"), o); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("options %+v: %v", o, err)
		}
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	if _, err := New(unixConn(t, fds[0]), of(d)); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a socket of another type: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }

// Nothing stays open: descriptors, mappings and the memory of both sides.
func TestNothingStaysOpen(t *testing.T) {
	coretest.CheckNoLeaks(t)
	before := coretest.Descriptors()
	t.Run("", func(t *testing.T) {
		d, e := host(t), host(t)
		for i := range 20 {
			a, b := connected(t, of(d), of(e))
			for range i % 4 {
				send(t, a, shareable(t, d, 10, memfd))
				send(t, a, numbers(t, 10))
			}
			for range i % 3 * i % 4 {
				receive(t, b, e)
			}
			_ = []*Conn{a, b}[i%2].Close()
		}
	})
	coretest.WantDescriptors(t, before, "afterwards")
}
