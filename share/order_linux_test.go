//go:build cgo

package share

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
	"github.com/dlx-go/dlx/stream"
)

// timelines is a device that exports timeline semaphores, as Vulkan's of a real card does. It lies
// on the card of a simulated device.
type timelines struct {
	core.Device
	sim *gpusim.Simulator
}

func (d timelines) Properties() core.Properties {
	p := d.Device.Properties()
	p.Capabilities = core.CapSemaphores | core.CapExportSemaphores
	return p
}

func (d timelines) SemaphoreExportTypes() []core.HandleType {
	return []core.HandleType{core.HandleOpaqueFD}
}

func (d timelines) NewSemaphore(context.Context, core.HandleType) (core.Semaphore, error) {
	x, err := d.sim.NewTimeline()
	return exportedTimeline{x}, err
}

func (d timelines) ExportSemaphore(s core.Semaphore, t core.HandleType) (core.ExternalSemaphore, error) {
	return d.external(s.(exportedTimeline).Timeline)
}

func (d timelines) external(x *gpusim.Timeline) (core.ExternalSemaphore, error) {
	fd, err := unix.FcntlInt(uintptr(x.FD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return core.ExternalSemaphore{}, err
	}
	h, err := backendkit.NewHandle(core.HandleOpaqueFD, uintptr(fd))
	return core.ExternalSemaphore{Handle: h, DeviceUUID: d.Properties().UUID}, err
}

// exportedTimeline is a semaphore of timelines. Its streams are those of the devices that import it.
type exportedTimeline struct{ *gpusim.Timeline }

var errNoStream = errors.New("only an import has streams")

func (exportedTimeline) Signal(core.Stream, uint64) error   { return errNoStream }
func (exportedTimeline) WaitOn(core.Stream, uint64) error   { return errNoStream }
func (exportedTimeline) Wait(context.Context, uint64) error { return errNoStream }
func (s exportedTimeline) Close() error                     { return unix.Close(s.FD) }

// card is a simulated device with what exports semaphores of it.
type card struct {
	device    core.Device
	timelines timelines
	late      bool // a signal comes after that of the peer, which is what the driver reports
}

// errNoCard says that there is no simulated device.
var errNoCard = errors.New("there is no simulated CUDA device in this build")

// openCard opens a simulated device of CUDA. The caller closes it.
func openCard(ctx context.Context) (x card, err error) {
	registry := all.New()
	if _, err := registry.Backend("cuda"); err != nil {
		return x, errNoCard
	}
	if x.timelines.sim, err = gpusim.Open(); err != nil {
		return x, errNoCard
	}
	x.device, err = registry.Open(ctx, core.DeviceID{Type: core.DeviceCUDA})
	x.timelines.Device = x.device
	return x, err
}

func (x card) options() Options { return of(x.device, x.timelines) }

// newCard opens a simulated device until the end of the test, which fails after misuse.
func newCard(t testing.TB) *card {
	t.Helper()
	x, err := openCard(t.Context())
	if errors.Is(err, errNoCard) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.device.Close(); err != nil {
			t.Errorf("closing %v: %v", x.device.ID(), err)
		}
		for _, m := range x.timelines.sim.Misuse() {
			if !x.late || !strings.HasPrefix(m, "cuSignalExternalSemaphoresAsync: value") {
				t.Errorf("the driver was misused: %s", m)
			}
		}
		x.timelines.sim.ClearMisuse()
	})
	return &x
}

const workWords = 1000

// work is work on a card that does not end before it is let go.
type work struct {
	stream core.Stream
	gate   *gpusim.Timeline
	wait   core.Semaphore
	turn   uint64
}

func (x card) newWork(ctx context.Context) (w *work, err error) {
	w = new(work)
	if w.gate, err = x.timelines.sim.NewTimeline(); err != nil {
		return nil, err
	}
	e, err := x.timelines.external(w.gate)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if w.wait, err = x.device.(core.SemaphoreImporter).ImportSemaphore(ctx, e); err != nil {
		return nil, err
	}
	w.stream, err = x.device.NewStream(ctx)
	return w, err
}

// write enqueues a write of values to a tensor. It copies from memory of the card: staging memory
// would be used by one write after the other.
func (w *work) write(ctx context.Context, t *core.Tensor, value int32) error {
	from, err := core.FromSlice(slices.Repeat([]int32{value}, workWords), workWords)
	if err != nil {
		return err
	}
	defer from.Close()
	d := t.Device()
	there, err := core.Empty(ctx, d, core.TypeInt32, []int64{workWords}, core.AllocOptions{})
	if err != nil {
		return err
	}
	defer there.Close() // the work keeps its memory
	if err := d.Copy(ctx, nil, there, from); err != nil {
		return err
	}
	w.turn++
	if err := w.wait.WaitOn(w.stream, w.turn); err != nil {
		return err
	}
	return d.Copy(ctx, w.stream, t, there)
}

// let lets the work go.
func (w *work) let() error { return w.gate.Signal(w.turn) }

func (w *work) close() error {
	return errors.Join(w.stream.Close(), w.wait.Close(), unix.Close(w.gate.FD))
}

// begun returns work that the test closes.
func begun(t testing.TB, x *card) *work {
	t.Helper()
	w, err := x.newWork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if now, err := w.gate.Value(); err == nil && now < w.turn {
			_ = w.let()
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// onCard makes a tensor that can be exported.
func onCard(t testing.TB, d core.Device, o core.AllocOptions) *core.Tensor {
	t.Helper()
	x, err := core.Empty(t.Context(), d, core.TypeInt32, []int64{workWords}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

var opaqueFD = core.AllocOptions{Export: core.HandleOpaqueFD}

// copied enqueues a copy of a tensor into the memory of another device, and returns it.
func copied(t testing.TB, d core.Device, s core.Stream, x *core.Tensor) *core.Tensor {
	t.Helper()
	y := onCard(t, d, core.AllocOptions{})
	if err := d.Copy(t.Context(), s, y, x); err != nil {
		t.Fatal(err)
	}
	return y
}

// wantWords fails unless all elements of a tensor of a device are value.
func wantWords(t testing.TB, x *core.Tensor, value int32) {
	t.Helper()
	got := make([]int32, workWords)
	into, err := core.FromSlice(got, workWords)
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	if err := x.Device().Copy(t.Context(), nil, into, x); err != nil {
		t.Fatal(err)
	}
	if slices.Min(got) != value || slices.Max(got) != value {
		t.Fatalf("elements from %d to %d, want %d", slices.Min(got), slices.Max(got), value)
	}
}

func newStream(t testing.TB, d core.Device) core.Stream {
	t.Helper()
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (c *Conn) laneCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lanes)
}

// Send returns while the work that writes the tensor is unfinished, and so do Receive and copies of
// the result: the receiver's stream waits on the device. One semaphore serves all tensors that are
// sent one after the other.
func TestASemaphoreOrdersTwoConnections(t *testing.T) {
	a, b := newCard(t), newCard(t)
	sender, receiver := connected(t, a.options(), b.options())
	w := begun(t, a)
	x, s := onCard(t, a.device, opaqueFD), newStream(t, b.device)
	for round := range int32(20) {
		if err := w.write(t.Context(), x, round); err != nil {
			t.Fatal(err)
		}
		if r := send(t, sender, x); r.Wait != stream.SemaphoreWait || r.BytesCopied != 0 {
			t.Fatalf("round %d: sent: %v", round, r)
		}
		y, r := receive(t, receiver, b.device)
		if r.Wait != stream.SemaphoreWait || r.BytesCopied != 0 {
			t.Fatalf("round %d: received: %v", round, r)
		}
		z := copied(t, b.device, s, y)
		if e := z.Ready(); e == nil {
			t.Fatalf("round %d: the copy was waited for", round)
		} else if done, err := e.Done(); done {
			t.Fatalf("round %d: the copy is done before what it reads: %v", round, err)
		}
		if err := w.let(); err != nil {
			t.Fatal(err)
		}
		wantWords(t, z, round)
		y.Close()
		z.Close()
		released(t, sender)
	}
	if n := sender.laneCount(); n != 1 {
		t.Errorf("there are %d semaphores", n)
	}
	if len(receiver.semaphores) != 1 {
		t.Errorf("the receiver has %d semaphores", len(receiver.semaphores))
	}
}

// Each unfinished tensor has a semaphore of its own, so that none waits for the work of another one. The
// host waits when there are no more.
func TestEveryUnfinishedTensorHasASemaphore(t *testing.T) {
	a, b := newCard(t), newCard(t)
	sender, receiver := connected(t, a.options(), b.options())
	var all []*work
	for i := range int32(maxLanes) {
		w, x := begun(t, a), onCard(t, a.device, opaqueFD)
		all = append(all, w)
		if err := w.write(t.Context(), x, i); err != nil {
			t.Fatal(err)
		}
		if r := send(t, sender, x); r.Wait != stream.SemaphoreWait {
			t.Fatalf("tensor %d: %v", i, r)
		}
	}
	w, x := begun(t, a), onCard(t, a.device, opaqueFD)
	if err := w.write(t.Context(), x, maxLanes); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r, err := sender.Send(ctx, x)
	if !errors.Is(err, context.DeadlineExceeded) || r.Wait != stream.HostWait {
		t.Errorf("beyond the semaphores: %v, %v", r, err)
	}
	if n := len(r.Refused()); n != 1 {
		t.Errorf("the report does not say why the host waits: %v", r)
	}
	var received []*core.Tensor
	for range all {
		y, _ := receive(t, receiver, b.device)
		received = append(received, y)
	}
	for i, w := range slices.Backward(all) { // none waits for those before
		if err := w.let(); err != nil {
			t.Fatal(err)
		}
		wantWords(t, received[i], int32(i))
		received[i].Close()
	}
	released(t, sender)
}

// failing is an event whose work fails.
type failing struct {
	core.Event
	err error
}

func (e failing) Unwrap() core.Event { return e.Event }

func (e failing) Done() (bool, error) {
	done, err := e.Event.Done()
	if done && err == nil {
		err = e.err
	}
	return done, err
}

func (e failing) Wait(ctx context.Context) error {
	if err := e.Event.Wait(ctx); err != nil {
		return err
	}
	return e.err
}

// A write that fails after Send gives its error to all that read the tensor, also to work that was
// enqueued before.
func TestAFailedWriteIsTold(t *testing.T) {
	a, b := newCard(t), newCard(t)
	sender, receiver := connected(t, a.options(), b.options())
	for _, want := range []error{core.ErrDeviceLost, core.ErrOutOfMemory, core.ErrInvalid} {
		w, x := begun(t, a), onCard(t, a.device, opaqueFD)
		if err := w.write(t.Context(), x, 1); err != nil {
			t.Fatal(err)
		}
		buffer(t, x).Wrote(failing{x.Ready(), core.Errorf(want, "test", "write", "the write failed on purpose")})
		if r := send(t, sender, x); r.Wait != stream.SemaphoreWait {
			t.Fatalf("sent: %v", r)
		}
		y, _ := receive(t, receiver, b.device)
		z := copied(t, b.device, newStream(t, b.device), y)
		if done, err := y.Ready().Done(); done {
			t.Errorf("%v: it counts as written: %v", want, err)
		}
		if err := w.let(); err != nil {
			t.Fatal(err)
		}
		for _, x := range []*core.Tensor{y, z} {
			if err := x.WaitReady(t.Context()); !errors.Is(err, want) {
				t.Errorf("want %v, read: %v", want, err)
			}
		}
		y.Close()
		z.Close()
		released(t, sender)
		send(t, sender, numbers(t, 0)) // the connection goes on
		empty, _ := receive(t, receiver, nil)
		empty.Close()
	}
}

// A sender that ends its connection lets the receiver's device go on, with an error or with the
// elements. So does a receiver.
func TestTheEndOfAConnectionEndsWaitsOfDevices(t *testing.T) {
	for _, ends := range []string{"the sender closes", "the receiver closes", "the socket breaks"} {
		t.Run(ends, func(t *testing.T) {
			a, b := newCard(t), newCard(t)
			x, y := pair(t)
			a.late, b.late = true, true
			sender, receiver := made(t, x, a.options()), made(t, y, b.options())
			w, sent := begun(t, a), onCard(t, a.device, opaqueFD)
			if err := w.write(t.Context(), sent, 1); err != nil {
				t.Fatal(err)
			}
			send(t, sender, sent)
			got, _ := receive(t, receiver, b.device)
			s := newStream(t, b.device)
			z := copied(t, b.device, s, got)
			switch ends {
			case "the sender closes":
				go sender.Close()
				<-receiver.Done()
			case "the receiver closes":
				_ = receiver.Close()
			default:
				_ = unixShutdown(x)
				<-receiver.Done()
			}
			if err := s.Synchronize(t.Context()); err != nil {
				t.Errorf("the stream: %v", err)
			}
			for _, x := range []*core.Tensor{got, z} {
				if err := x.WaitReady(t.Context()); !errors.As(err, new(*ConnError)) {
					t.Errorf("reading gives %v", err)
				}
			}
			if now, err := w.gate.Value(); err != nil || now != 0 {
				t.Fatalf("the work has ended: %d, %v", now, err)
			}
		})
	}
}

// A receiver that cannot open the semaphore has the host wait.
func TestTheHostWaitsWhereTheDeviceCannot(t *testing.T) {
	a, b := newCard(t), newCard(t)
	sender, receiver := connected(t, a.options(), b.options())
	w, x := begun(t, a), onCard(t, a.device, opaqueFD)
	if err := w.write(t.Context(), x, 7); err != nil {
		t.Fatal(err)
	}
	send(t, sender, x)
	b.timelines.sim.Fail("cuImportExternalSemaphore", 1, 0)
	y, r := receive(t, receiver, b.device)
	if r.Wait != stream.HostWait || len(r.Refused()) == 0 {
		t.Errorf("received: %v", r)
	}
	if done, _ := y.Ready().Done(); done {
		t.Error("it counts as written")
	}
	if err := w.let(); err != nil {
		t.Fatal(err)
	}
	wantWords(t, y, 7)
	y.Close()
	released(t, sender)
}

// A connection that ends does not leave the tensors open that Receive has not returned.
func TestAnOrderedTensorThatNobodyReceives(t *testing.T) {
	a, b := newCard(t), newCard(t)
	sender, receiver := connected(t, a.options(), b.options())
	w, x := begun(t, a), onCard(t, a.device, opaqueFD)
	if err := w.write(t.Context(), x, 7); err != nil {
		t.Fatal(err)
	}
	send(t, sender, x)
	until(t, "it has arrived", func() bool { return receiver.Stats().Held == 1 })
	_ = receiver.Close()
	<-sender.Done()
}
