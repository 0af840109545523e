package exchange_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

func TestTheResultKeepsTheSourceAlive(t *testing.T) {
	a, b := newFakes(t, exports, imports)
	src := numbered(t, a, core.AllocOptions{Export: handleType}, 16)
	got, _ := to(t, src, b, exchange.Options{})
	_ = src.Close()
	other := numbered(t, a, core.AllocOptions{}, 16) // would take the block of src, were that free
	defer other.Close()
	write(t, a, other, make([]int32, 16))
	if have := read(t, b, got); have[15] != 15 {
		t.Errorf("the result holds %v", have)
	}
}

func TestOpenedMemoryIsGivenBackWithTheSource(t *testing.T) {
	before := liveOpened()
	a, b := newFakes(t, exports|hostView, imports|mapHost)
	for _, o := range []core.AllocOptions{{Export: handleType}, {HostVisible: true}} {
		src := numbered(t, a, o, 16)
		got, report := to(t, src, b, exchange.Options{})
		_ = got.Close()
		if liveOpened() == before || !report.Opened {
			t.Error("opened memory was not kept for the next move")
		}
		_ = src.Close()
		if n := liveOpened() - before; n != 0 {
			t.Errorf("%d memories are open after the source was closed", n)
		}
	}
}

func TestOpenedMemoryIsGivenBackBeforeTheDeviceCloses(t *testing.T) {
	a, b := newFakes(t, exports, imports)
	src := numbered(t, a, core.AllocOptions{Export: handleType}, 16)
	defer src.Close()
	got, _ := to(t, src, b, exchange.Options{})
	if err := b.Close(); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a device whose tensor is open closes with %v", err)
	}
	if have := read(t, b, got); have[15] != 15 {
		t.Errorf("after a Close that failed the tensor holds %v", have)
	}
	_ = got.Close()
	again, report := to(t, src, b, exchange.Options{})
	if report.Opened {
		t.Error("a Close that failed took away what was in use")
	}
	_ = again.Close()
	if err := b.Close(); err != nil {
		t.Errorf("a device without tensors closes with %v", err)
	}
	if have := read(t, a, src); have[15] != 15 {
		t.Errorf("the source holds %v", have)
	}
}

func TestADeviceDoesNotCloseWhileASourceFreesItsMemory(t *testing.T) {
	a, b := newFakes(t, exports, imports)
	src := numbered(t, a, core.AllocOptions{Export: handleType}, 16)
	got, _ := to(t, src, b, exchange.Options{})
	_ = got.Close()
	begun, goOn, closed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	b.freeing = func() {
		close(begun)
		<-goOn
	}
	go src.Close()
	<-begun
	go func() { closed <- b.Close() }()
	select {
	case err := <-closed:
		t.Errorf("the device closes while its memory is freed: %v", err)
		closed <- nil
	case <-time.After(20 * time.Millisecond):
	}
	close(goOn)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// What a device has of links that come to it must be given back, though a move to it failed.
func TestAMoveThatFailsLeavesTheDeviceWatched(t *testing.T) {
	const both = exports | imports | core.CapExportSemaphores | core.CapImportSemaphores
	a, b := newFakes(t, both, both)
	src := numbered(t, a, core.AllocOptions{Export: handleType}, 16)
	from, next := newStream(t, a), newStream(t, b)
	if err := a.Copy(t.Context(), from, src, slice(t, make([]int32, 16))); err != nil {
		t.Fatal(err)
	}
	got, report := to(t, src, b, exchange.Options{SourceStream: from, Stream: next})
	if report.Wait != stream.SemaphoreWait {
		t.Fatal(report.Wait)
	}
	if err := errors.Join(next.Synchronize(t.Context()), got.Close(), src.Close(), from.Close(), next.Close()); err != nil {
		t.Fatal(err)
	}
	for _, fails := range []error{core.ErrOutOfMemory, core.ErrClosed} {
		b.backend.Fail("Alloc", 1, core.Errorf(fails, "test", "Alloc", "as asked"))
		if _, _, err := exchange.To(t.Context(), slice(t, make([]int32, 16)), b, exchange.Options{}); !errors.Is(err, fails) {
			t.Errorf("a move that fails: %v", err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// A device that was closed before a move names it will never tell that it closes.
func TestAClosedDeviceIsNotKept(t *testing.T) {
	h := host(t)
	src := numbered(t, h, core.AllocOptions{}, 16)
	defer src.Close()
	closed := func() weak.Pointer[coretest.Device] {
		b := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})
		d, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceExt})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := exchange.To(t.Context(), src, d, exchange.Options{}); !errors.Is(err, core.ErrClosed) {
			t.Errorf("a move to a closed device: %v", err)
		}
		return weak.Make(d.(*coretest.Device))
	}()
	for end, late := time.Now().Add(20*time.Second), false; closed.Value() != nil; time.Sleep(time.Millisecond) {
		if late {
			t.Fatal("it is kept")
		}
		late = time.Now().After(end)
		runtime.GC()
	}
}

// quiet hides that a device tells when it closes.
type quiet struct {
	core.Device
	core.HostMapper
}

func TestADeviceThatDoesNotTellKeepsNothingOpen(t *testing.T) {
	a, _ := newFakes(t, mapHost, 0)
	h := host(t)
	src := numbered(t, h, core.AllocOptions{}, 16)
	defer src.Close()
	q := &quiet{a, a}
	before := liveOpened()
	one, first := to(t, src, q, exchange.Options{})
	two, second := to(t, src, q, exchange.Options{})
	if !first.Opened || second.Opened {
		t.Errorf("opened: %v, then %v", first.Opened, second.Opened)
	}
	_ = one.Close()
	if liveOpened() == before {
		t.Error("memory was closed under a tensor")
	}
	_ = two.Close()
	if n := liveOpened() - before; n != 0 {
		t.Errorf("%d memories are open after the last tensor", n)
	}
	_, report := to(t, src, q, exchange.Options{Copy: exchange.Always})
	if report.BytesCopied != 64 {
		t.Errorf("a copy to a device that does not tell: %+v", report)
	}
}

// The memory of a result is given back after the work that uses it, in whichever
// order source, result, stream and devices are closed.
func TestATensorHandedOnLivesUntilTheLastWorkIsDone(t *testing.T) {
	a, b := newFakes(t, exports, imports)
	h := host(t)
	for range 20 {
		src := numbered(t, a, core.AllocOptions{Export: handleType}, 64)
		got, _, err := exchange.To(t.Context(), src, b, exchange.Options{})
		if err != nil {
			t.Fatal(err)
		}
		values := make([]int32, 64)
		v := slice(t, values)
		s := newStream(t, b)
		if err := b.Copy(t.Context(), s, v, got); err != nil { // runs when it is waited for
			t.Fatal(err)
		}
		_, _ = src.Close(), got.Close()
		trash := numbered(t, a, core.AllocOptions{}, 64)
		write(t, a, trash, make([]int32, 64))
		onHost, _ := to(t, v, h, exchange.Options{})
		if err := onHost.WaitReady(t.Context()); err != nil || values[63] != 63 {
			t.Fatalf("the work read %v, %v", values, err)
		}
		_ = trash.Close()
	}
}

func TestConcurrentFirstMovesOpenOnce(t *testing.T) {
	a, b := newFakes(t, exports, imports)
	src := numbered(t, a, core.AllocOptions{Export: handleType}, 16)
	defer src.Close()
	var opened, workers sync.WaitGroup
	opened.Add(1)
	for range 16 {
		workers.Go(func() {
			opened.Wait()
			got, _, err := exchange.To(t.Context(), src, b, exchange.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			_ = got.Close()
		})
	}
	opened.Done()
	workers.Wait()
	if n := b.called("ImportMemory"); n != 1 {
		t.Errorf("the memory was opened %d times", n)
	}
}

// That the caller who opens gives up is nothing to those who wait for it.
func TestAnOpenerThatGivesUpLeavesTheOthers(t *testing.T) {
	a, _ := newFakes(t, mapHost, 0)
	h := host(t)
	src := numbered(t, h, core.AllocOptions{}, 16)
	defer src.Close()
	slow := &slowMapper{fake: a, entered: make(chan struct{}), release: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp, moved := make(chan error), make(chan error)
	go func() {
		_, _, err := exchange.To(ctx, src, slow, exchange.Options{})
		gaveUp <- err
	}()
	<-slow.entered
	go func() {
		got, _, err := exchange.To(t.Context(), src, slow, exchange.Options{})
		if err == nil {
			_ = got.Close()
		}
		moved <- err
	}()
	waiting, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := exchange.To(waiting, src, slow, exchange.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller whose context has ended gets %v", err)
	}
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that gave up gets %v", err)
	}
	close(slow.release)
	if err := <-moved; err != nil {
		t.Errorf("the caller that waited gets %v", err)
	}
}

// slowMapper maps when it is released, or ends with its context.
type slowMapper struct {
	*fake
	once             sync.Once
	entered, release chan struct{}
}

func (s *slowMapper) MapHost(ctx context.Context, b *core.Buffer) (core.Memory, error) {
	s.once.Do(func() { close(s.entered) })
	select {
	case <-s.release:
		return s.fake.MapHost(ctx, b)
	case <-ctx.Done():
		return core.Memory{}, ctx.Err()
	}
}

// Goroutines move tensors between all devices, write to some and close them in any
// order, while others look at the same memory.
func TestHammer(t *testing.T) {
	coretest.CheckNoLeaks(t)
	backend := coretest.NewBackend(coretest.Options{Log: t.Logf})
	w := &world{memories: make(map[uint64]core.Memory), semaphores: make(map[uint64]core.Semaphore)}
	a := newFake(t, backend, w, 0, mapHost|exports|imports|hostView)
	b := newFake(t, backend, w, 1, mapHost|imports|peer|hostView)
	h := host(t)
	// What was closed before its work was done is freed by goroutines of the simulated backend.
	t.Cleanup(func() {
		for _, d := range []core.Device{a, b} {
			for deadline := time.Now().Add(20 * time.Second); d.Close() != nil && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
		}
	})
	devices := []core.Device{h, a, b}
	var roots []*core.Tensor
	for i, d := range devices {
		x := numbered(t, d, core.AllocOptions{}, 64)
		if i == 1 {
			_ = x.Close()
			x = numbered(t, d, core.AllocOptions{Export: handleType}, 64)
		}
		defer x.Close()
		roots = append(roots, x)
	}
	var workers sync.WaitGroup
	for g := range 8 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 3))
			for range 60 {
				if err := wander(t.Context(), r, roots[r.IntN(len(roots))], devices, h); err != nil {
					t.Errorf("goroutine %d: %v", g, err)
					return
				}
			}
		})
	}
	workers.Wait()
}

// wander moves a tensor of 64 numbers through devices, closing what is behind it,
// and checks what arrives at the host.
func wander(ctx context.Context, r *rand.Rand, x *core.Tensor, devices []core.Device, h core.Device) error {
	current, err := x.Share()
	if err != nil {
		return err
	}
	defer func() { _ = current.Close() }()
	for range 1 + r.IntN(4) {
		o := exchange.Options{Copy: []exchange.Copy{exchange.IfNeeded, exchange.IfNeeded, exchange.Always}[r.IntN(3)]}
		next, _, err := exchange.To(ctx, current, devices[r.IntN(len(devices))], o)
		if err != nil {
			return err
		}
		_ = current.Close()
		current = next
	}
	back, _, err := exchange.To(ctx, current, h, exchange.Options{})
	if err != nil {
		return err
	}
	defer back.Close()
	if err := back.WaitReady(ctx); err != nil {
		return err
	}
	values, err := core.Values[int32](back)
	if err != nil {
		return err
	}
	for i, v := range values {
		if v != int32(i) {
			return errors.New("the elements have changed")
		}
	}
	return nil
}

// A device that is asked to close while moves to and from it are under way stays
// open, since tensors are, and the moves go well.
func TestCloseDuringMoves(t *testing.T) {
	for _, caps := range []core.Capabilities{0, hostView, exports | imports | hostView | mapHost | peer} {
		a, b := newFakes(t, caps, caps)
		onA, onB := numbered(t, a, core.AllocOptions{Export: handleType}, 64), numbered(t, b, core.AllocOptions{}, 64)
		defer onA.Close()
		defer onB.Close()
		var moves, closing sync.WaitGroup
		stop := make(chan struct{})
		for _, d := range []core.Device{a, b} {
			closing.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						if err := d.Close(); !errors.Is(err, core.ErrInvalid) {
							t.Errorf("Close gives %v", err)
							return
						}
					}
				}
			})
		}
		for range 4 {
			moves.Go(func() {
				for i := range 16 {
					src, dst := onA, core.Device(b)
					if i%2 == 1 {
						src, dst = onB, a
					}
					got, _, err := exchange.To(t.Context(), src, dst, exchange.Options{Copy: exchange.Copy(i % 4 / 2 * 2)})
					if err == nil {
						err = got.WaitReady(t.Context())
						_ = got.Close()
					}
					// A stream of the cache may have been closed under the move.
					if err != nil && !errors.Is(err, core.ErrClosed) {
						t.Error(err)
					}
				}
			})
		}
		moves.Wait()
		close(stop)
		closing.Wait()
	}
}

func TestHandoff(t *testing.T) {
	all := exports | imports | core.CapExportSemaphores | core.CapImportSemaphores
	for _, c := range []struct {
		name     string
		from, to core.Capabilities
		set      func(a, b *fake)
		named    bool // Options.SourceStream
		done     bool // the source was written already
		want     stream.Wait
	}{
		{name: "a semaphore that both devices share", from: all, to: all, named: true, want: stream.SemaphoreWait},
		{name: "a semaphore of the destination's", from: exports | core.CapImportSemaphores, to: imports | core.CapExportSemaphores, named: true, want: stream.SemaphoreWait},
		{name: "nothing to wait for", from: all, to: all, done: true, want: stream.NoWait},
		{name: "no stream of the source", from: all, to: all, want: stream.HostWait},
		{name: "no semaphores at the source", from: exports, to: all, named: true, want: stream.HostWait},
		{name: "no semaphores at the destination", from: all, to: imports, named: true, want: stream.HostWait},
		{name: "a semaphore that cannot be made", from: all, to: all, named: true, want: stream.HostWait,
			set: func(a, b *fake) { a.fail("NewSemaphore", core.ErrOutOfMemory) }},
		{name: "a semaphore that cannot be exported", from: all, to: all, named: true, want: stream.HostWait,
			set: func(a, b *fake) { a.fail("ExportSemaphore", core.ErrOutOfMemory) }},
		{name: "a semaphore that cannot be imported", from: all, to: all, named: true, want: stream.HostWait,
			set: func(a, b *fake) { b.fail("ImportSemaphore", core.ErrDevice) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newFakes(t, c.from, c.to)
			if c.set != nil {
				c.set(a, b)
			}
			src := numbered(t, a, core.AllocOptions{Export: handleType}, 16)
			defer src.Close()
			from, next := newStream(t, a), newStream(t, b)
			for round := range int32(3) {
				values := make([]int32, 16)
				values[15] = round + 1
				if !c.done {
					if err := a.Copy(t.Context(), from, src, slice(t, values)); err != nil {
						t.Fatal(err)
					}
				} else {
					write(t, a, src, values)
				}
				o := exchange.Options{Stream: next}
				if c.named {
					o.SourceStream = from
				}
				got, report := to(t, src, b, o)
				if report.Wait != c.want || report.BytesCopied != 0 {
					t.Errorf("round %d: the stream waited by %v, want %v", round, report.Wait, c.want)
				}
				// Work that does not look at the tensor's events is in order all the same.
				have := make([]int32, 16)
				v := slice(t, have)
				s, err := got.Share()
				if err != nil {
					t.Fatal(err)
				}
				err = next.(*fakeStream).Enqueue(func() error { defer s.Close(); return coretest.CopyNaive(v, s) })
				if err := errors.Join(err, next.Synchronize(t.Context())); err != nil || have[15] != round+1 {
					t.Errorf("round %d: work on the stream read %v, %v", round, have, err)
				}
			}
			if n := a.called("NewSemaphore") + b.called("NewSemaphore"); c.want == stream.SemaphoreWait && n != 1 {
				t.Errorf("%d semaphores were made for one pair of streams", n)
			}
		})
	}
}

// A device that is lost keeps no other one waiting, nor is its own Close kept waiting.
func TestALostDeviceHoldsNobodyUp(t *testing.T) {
	all := exports | imports | core.CapExportSemaphores | core.CapImportSemaphores
	a, b := newFakes(t, all, all)
	src := numbered(t, a, core.AllocOptions{Export: handleType}, 16)
	from, err := a.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next := newStream(t, b)
	written, err := from.Record()
	if err != nil {
		t.Fatal(err)
	}
	buffer, err := src.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	buffer.Wrote(written)
	got, report := to(t, src, b, exchange.Options{SourceStream: from, Stream: next})
	if report.Wait != stream.SemaphoreWait {
		t.Fatalf("the stream waited by %v", report.Wait)
	}
	a.backend.Lose(a.ID().Index)
	_ = from.Close()
	if err := next.Synchronize(t.Context()); err != nil {
		t.Errorf("the stream that waits: %v", err)
	}
	if err := got.WaitReady(t.Context()); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("the tensor: %v", err)
	}
	_, _ = got.Close(), src.Close() // the test closes the devices
}

// Work on Options.SourceStream that left no event is waited for.
func TestWorkWithoutEventsIsWaitedFor(t *testing.T) {
	a, b := newFakes(t, exports, imports|peer)
	src := numbered(t, a, core.AllocOptions{Export: handleType}, 16)
	defer src.Close()
	from := newStream(t, a)
	for _, o := range []exchange.Options{{SourceStream: from}, {SourceStream: from, Copy: exchange.Always}, {SourceStream: from, Only: exchange.Staged}} {
		values := make([]int32, 16)
		values[15] = int32(o.Only) + 7
		v := slice(t, values)
		if err := from.(*fakeStream).Enqueue(func() error { return coretest.CopyNaive(src, v) }); err != nil {
			t.Fatal(err)
		}
		got, _ := to(t, src, b, o)
		if have := read(t, b, got); have[15] != values[15] {
			t.Errorf("%+v: the result holds %v", o, have)
		}
	}
}

// liveOpened is how many memories moves and Open have open.
func liveOpened() int64 { return core.Live()["exchange.Opened"] }
