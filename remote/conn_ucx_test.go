//go:build ucx && linux && cgo

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

func host(t testing.TB) core.Device {
	t.Helper()
	d, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// connect returns the two ends of a connection on the loopback interface.
func connect(t testing.TB, o Options) (dialed, accepted *Conn) {
	t.Helper()
	if len(o.Token) == 0 && o.TLS == nil {
		o.Insecure = true
	}
	l, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err = Dial(t.Context(), l.Addr().String(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialed.Close() })
	if accepted, err = l.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = accepted.Close() })
	return dialed, accepted
}

// setFor sets a variable until the test ends.
func setFor[T any](t testing.TB, variable *T, value T) {
	before := *variable
	*variable = value
	t.Cleanup(func() { *variable = before })
}

// row makes a tensor of n bytes with a pattern.
func row(t testing.TB, n int, seed uint64) *core.Tensor {
	t.Helper()
	x, err := core.FromSlice(coretest.Pattern(n, seed))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

// pass sends x and receives it on d.
func pass(t testing.TB, a, b *Conn, x *core.Tensor, d core.Device) (y *core.Tensor, sent, received Report) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		sent, err = a.SendLabeled(t.Context(), x, "label")
		done <- err
	}()
	y, received, err := b.Receive(t.Context(), d)
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = y.Close() })
	return y, sent, received
}

func wantEqual(t testing.TB, x, y *core.Tensor) {
	t.Helper()
	if x.DType() != y.DType() || !x.Layout().SameShape(y.Layout()) || x.Flags()&keptFlags != y.Flags()&keptFlags {
		t.Fatalf("received %v, sent %v", y, x)
	}
	if equal, err := core.EqualBits(t.Context(), x, y); err != nil || !equal {
		t.Errorf("the elements of %v differ: %v", x, err)
	}
}

func TestSizes(t *testing.T) {
	d := host(t)
	a, b := connect(t, Options{})
	for _, n := range []int{0, 1, 4096, 8192, 8193, 100_000, pieceBytes, pieceBytes + 1, 5*pieceBytes + 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			x := row(t, n, uint64(n))
			y, sent, received := pass(t, a, b, x, d)
			wantEqual(t, x, y)
			if sent.Mechanism != exchange.Direct || received.Mechanism != exchange.Direct || received.Label != "label" ||
				sent.BytesCopied+received.BytesCopied != 0 || received.Bytes != int64(n) || n > 0 && len(sent.Transports) == 0 || sent.Wait != stream.NoWait {
				t.Errorf("reports\n%v\n%v", sent, received)
			}
		})
	}
	if err := a.WaitReceived(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("UCX %s: %v", Version(), a.Transports())
	if s := b.Stats(); s.Received != 9 || s.Waiting != 0 || s.Dropped != 0 || a.Stats().InFlight != 0 {
		t.Errorf("stats %+v and %+v", a.Stats(), s)
	}
}

func TestKindsOfTensors(t *testing.T) {
	d := host(t)
	a, b := connect(t, Options{})
	keep := coretest.Keep(t)
	matrix := keep(row(t, 120*1000*8, 1).Reshape(120, 8000))
	scalar := keep(core.FromSlice([]float64{42}))
	tensors := []*core.Tensor{
		keep(matrix.Transpose()),
		keep(matrix.Slice(1, 10, 7000, 3)),
		keep(matrix.Slice(0, 3, 100, 1)),
		keep(scalar.Reshape()),
		keep(row(t, 100, 2).AsReadOnly()),
		keep(keep(row(t, 8, 2).Reshape(8, 1)).Broadcast(8, 3000)),
		keep(core.Empty(t.Context(), d, core.TypeFloat32, []int64{3, 0, 5}, core.AllocOptions{})),
		keep(core.Wrap(hostBytes(t, d, 9), core.Spec{DType: core.TypeInt4, Shape: []int64{3, 6}})),
		keep(core.Wrap(hostBytes(t, d, 15), core.Spec{DType: core.TypeFloat4E2M1FN, Shape: []int64{3, 5}, Flags: core.FlagSubBytePadded})),
	}
	for _, x := range tensors {
		t.Run(x.String(), func(t *testing.T) {
			y, sent, _ := pass(t, a, b, x, d)
			wantEqual(t, x, y)
			if gathered := sent.BytesCopied != 0; gathered == x.Layout().IsContiguous() || gathered != strings.Contains(sent.Reason, "gathered") {
				t.Errorf("report\n%v", sent)
			}
		})
	}
}

func hostBytes(t testing.TB, d core.Device, n int) core.Memory {
	t.Helper()
	m, err := core.Alloc(t.Context(), d, int64(n), core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x := coretest.Keep(t)(core.Wrap(core.Memory{ID: core.CPU, Device: d, Handle: m.Handle, Offset: m.Offset, Size: m.Size}, core.Spec{DType: core.TypeUint8, Shape: []int64{int64(n)}}))
	coretest.Put(t, d, x, coretest.Pattern(n, 5))
	return m
}

// Both sides send at the same time, from several goroutines, more than the limit permits to be on its way.
func TestBothDirections(t *testing.T) {
	d := host(t)
	for _, poll := range []time.Duration{0, 50 * time.Microsecond} {
		a, b := connect(t, Options{Poll: poll, Limits: Limits{Tensors: 3}})
		const senders, each = 3, 40
		var group sync.WaitGroup
		for _, c := range []*Conn{a, b} {
			for i := range senders {
				group.Go(func() {
					for k := range each {
						x, err := core.FromSlice(coretest.Pattern(1+k*1000, uint64(i)))
						if err != nil {
							t.Error(err)
							return
						}
						if _, err := c.SendLabeled(t.Context(), x, fmt.Sprint(i)); err != nil {
							t.Error(err)
						}
						x.Close()
					}
				})
			}
			group.Go(func() {
				for range senders * each {
					y, r, err := c.Receive(t.Context(), d)
					if err != nil {
						t.Error(err)
						return
					}
					got, err := core.Values[uint8](y)
					if want := coretest.Pattern(len(got), uint64(r.Label[0]-'0')); err != nil || !bytes.Equal(got, want) {
						t.Errorf("tensor of %d bytes of sender %s: wrong elements, %v", len(got), r.Label, err)
					}
					y.Close()
				}
			})
		}
		group.Wait()
		if err := errors.Join(a.WaitReceived(t.Context()), b.WaitReceived(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

// The sender waits for the last write to the tensor, and sends nothing if that has failed.
func TestSendWaitsForTheLastWrite(t *testing.T) {
	d := host(t)
	a, b := connect(t, Options{})
	x := row(t, 100, 1)
	buffer, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	write := &transfer{over: make(chan struct{})}
	buffer.Wrote(write)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Send(ctx, x); !errors.Is(err, context.Canceled) {
		t.Errorf("while the write is unfinished: %v", err)
	}
	go close(write.over)
	y, sent, _ := pass(t, a, b, x, d)
	wantEqual(t, x, y)
	if sent.Wait != stream.NoWait && sent.Wait != stream.HostWait {
		t.Errorf("report\n%v", sent)
	}
}

// A tensor that nobody receives does not block Send for longer than ctx, and the memory is in use until the end.
func TestNobodyReceives(t *testing.T) {
	d := host(t)
	a, b := connect(t, Options{Limits: Limits{Tensors: 2}})
	x := row(t, 3*pieceBytes, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for range 3 { // the third one waits for the limit
		if _, err := a.Send(ctx, x); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Send returned %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
	}
	buffer, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	if len(buffer.Pending()) == 0 {
		t.Error("the memory does not count as in use while UCX may read it")
	}
	// All pieces of the first one are on their way: they arrive, and make room.
	for range 2 {
		y, _, err := b.Receive(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, x, y)
		y.Close()
	}
	y, _, _ := pass(t, a, b, x, d)
	wantEqual(t, x, y)
	if err := x.WaitIdle(t.Context()); err != nil {
		t.Error(err)
	}
}

// The sender gives a tensor up of which a part is sent.
func TestAbandonedTensors(t *testing.T) {
	d := host(t)
	a, b := connect(t, Options{})
	x := row(t, 20*pieceBytes, 1)
	send := func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := a.Send(ctx, x); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Send returned %v", err)
		}
	}
	var early error
	for range 5 { // the news may come after Receive has begun, or before
		send()
		small := row(t, 10, 3)
		if _, err := a.Send(t.Context(), small); err != nil {
			t.Fatal(err)
		}
		y, _, err := b.Receive(t.Context(), d)
		if err != nil {
			if early = err; !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, core.ErrClosed) {
				t.Fatalf("a tensor that was given up: %v", err)
			}
			if y, _, err = b.Receive(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		wantEqual(t, small, y)
		y.Close()
	}
	t.Logf("a Receive that had begun returns %v", early)
	if err := x.WaitIdle(t.Context()); err != nil {
		t.Error(err)
	}
	if s := b.Stats(); s.Waiting != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestReceiveEndsWithItsContext(t *testing.T) {
	d := host(t)
	a, b := connect(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := b.Receive(ctx, d); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing to receive: %v", err)
	}
	x := row(t, 100, 1)
	y, _, _ := pass(t, a, b, x, d)
	wantEqual(t, x, y)
}

// A tensor for which there is no memory is lost, and the connection goes on.
func TestNoMemory(t *testing.T) {
	d := host(t)
	a, b := connect(t, Options{})
	full := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Opaque: true})
	done := make(chan error, 1)
	go func() {
		_, err := a.Send(t.Context(), row(t, 3*pieceBytes, 1))
		done <- err
	}()
	ctx, cancel := context.WithCancel(t.Context())
	if _, _, err := b.Receive(ctx, failing{full}); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("Receive returned %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Send returned %v", err)
	}
	x := row(t, 100, 1)
	y, _, _ := pass(t, a, b, x, d)
	wantEqual(t, x, y)
}

// failing is a device without memory.
type failing struct{ core.Device }

func (failing) Alloc(context.Context, int64, core.AllocOptions) (core.Memory, error) {
	return core.Memory{}, core.Errorf(core.ErrOutOfMemory, "test", "Alloc", "no memory")
}

// Memory that the host cannot address goes through staging memory, on both sides.
func TestDeviceMemory(t *testing.T) {
	keep := coretest.Keep(t)
	d := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Opaque: true})
	if d.ID().Type.HostAccessible() {
		t.Fatal("the simulated device is of the host")
	}
	a, b := connect(t, Options{})
	for _, n := range []int{0, 10, 9000, pieceBytes + 1, 5*pieceBytes + 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			x := keep(core.Empty(t.Context(), d, core.TypeUint8, []int64{int64(n)}, core.AllocOptions{}))
			want := coretest.Pattern(n, 4)
			if n > 0 {
				coretest.Put(t, d, x, want)
			}
			y, sent, received := pass(t, a, b, x, d)
			if n == 0 {
				return
			}
			if !bytes.Equal(coretest.Get(t, d, y), want) {
				t.Error("the elements differ")
			}
			if sent.Mechanism != exchange.Staged || received.Mechanism != exchange.Staged || sent.BytesCopied != int64(n) || received.BytesCopied != int64(n) ||
				!strings.Contains(sent.Reason, "memory of the host") || !strings.Contains(received.Reason, "memory of the host") {
				t.Errorf("reports\n%v\n%v", sent, received)
			}
		})
	}
}

func TestTheEndOfAConnection(t *testing.T) {
	d := host(t)
	a, b := connect(t, Options{})
	c, e := connect(t, Options{}) // unharmed
	received := make(chan error, 1)
	go func() {
		_, _, err := b.Receive(t.Context(), d)
		received <- err
	}()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	var typed *ConnError
	if err := <-received; !errors.As(err, &typed) || !errors.Is(err, core.ErrClosed) || !errors.Is(err, io.EOF) {
		t.Errorf("the peer of a closed connection has the error %v", err)
	}
	x := row(t, 100, 1)
	_, err := a.Send(t.Context(), x)
	if !errors.As(err, &typed) || !errors.Is(err, net.ErrClosed) || !errors.Is(a.WaitReceived(t.Context()), net.ErrClosed) && a.Stats().InFlight != 0 {
		t.Errorf("a closed connection returns %v", err)
	}
	_ = a.Close()
	y, _, _ := pass(t, c, e, x, d)
	wantEqual(t, x, y)
}

// A receiver that closes the connection at once after the last tensor has received all, also for a sender that asks later.
func TestReceivedAndClosed(t *testing.T) {
	d := host(t)
	for _, later := range []bool{true, false} {
		a, b := connect(t, Options{})
		for i := range 3 {
			pass(t, a, b, row(t, 100, uint64(i)), d)
		}
		asked := make(chan error, 1)
		if !later {
			go func() { asked <- a.WaitReceived(t.Context()) }()
		}
		_ = b.Close()
		if later {
			<-a.Done()
			asked <- a.WaitReceived(t.Context())
		}
		if err := <-asked; err != nil {
			t.Errorf("WaitReceived after the end %v: %v", later, err)
		}
		if s := a.Stats(); s.InFlight != 0 {
			t.Errorf("stats %+v", s)
		}
	}
	a, b := connect(t, Options{}) // one that has not received all has not
	if _, err := a.Send(t.Context(), row(t, 100, 1)); err != nil {
		t.Fatal(err)
	}
	_ = b.Close()
	if err := a.WaitReceived(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("WaitReceived of a tensor that was not received: %v", err)
	}
}

// Close ends a Send that nobody receives, and the memory is free.
func TestCloseEndsSend(t *testing.T) {
	a, _ := connect(t, Options{})
	x := row(t, 20*pieceBytes, 1)
	done := make(chan error, 1)
	go func() {
		_, err := a.Send(t.Context(), x)
		done <- err
	}()
	for a.Stats().InFlight == 0 {
		time.Sleep(time.Millisecond)
	}
	_ = a.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Send returned %v", err)
	}
	if err := x.WaitIdle(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWrongArguments(t *testing.T) {
	d := host(t)
	a, b := connect(t, Options{Limits: Limits{Bytes: 1000}})
	closed := row(t, 10, 1)
	closed.Close()
	foreign := coretest.Keep(t)(core.Wrap(core.Memory{ID: core.DeviceID{Type: core.DeviceCUDA}, Handle: 64, Size: 4}, core.Spec{DType: core.TypeUint8, Shape: []int64{4}}))
	send := func(x *core.Tensor, label string) error {
		_, err := a.SendLabeled(t.Context(), x, label)
		return err
	}
	_, _, noDevice := b.Receive(t.Context(), nil)
	var none *Conn
	_, _, noConn := none.Receive(t.Context(), d)
	_, zero := new(Conn).Send(t.Context(), row(t, 1, 1))
	for name, x := range map[string]struct{ err, want error }{
		"nil tensor":      {send(nil, ""), core.ErrInvalid},
		"closed":          {send(closed, ""), core.ErrClosed},
		"long label":      {send(row(t, 1, 1), strings.Repeat("x", maxLabel+1)), core.ErrInvalid},
		"too large":       {send(row(t, 1001, 1), ""), core.ErrOutOfMemory},
		"foreign memory":  {send(foreign, ""), core.ErrDevice},
		"no device":       {noDevice, core.ErrInvalid},
		"no connection":   {noConn, core.ErrInvalid},
		"zero connection": {zero, core.ErrInvalid},
	} {
		if !errors.Is(x.err, x.want) {
			t.Errorf("%s: %v, want %q", name, x.err, x.want)
		}
	}
	y, _, _ := pass(t, a, b, row(t, 1000, 1), d) // the connection goes on
	y.Close()
}
