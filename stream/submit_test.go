package stream_test

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// unordered is a Submit that forgets to wait, but notes the work.
func unordered(ctx context.Context, s core.Stream, writes, reads []*core.Tensor, enqueue func() error) error {
	if err := enqueue(); err != nil {
		return err
	}
	e, err := s.Record()
	for _, t := range slices.Concat(writes, reads) {
		b, bufferErr := t.Buffer()
		if bufferErr != nil {
			return bufferErr
		}
		b.Wrote(e)
	}
	return err
}

// chain copies want from the host through both devices, on two streams, and
// gives what arrives.
func chain(t *testing.T, o coretest.Options, want []int32) []int32 {
	b := newBackend(t, o)
	d0, d1 := open(t, b, 0), open(t, b, 1)
	s0, s1 := newStream(t, d0), newStream(t, d1)
	got := make([]int32, len(want))
	src, dst := host(t, want), host(t, got)
	x, y := empty(t, d0, core.TypeInt32, int64(len(want))), empty(t, d1, core.TypeInt32, int64(len(want)))
	for _, err := range []error{
		d0.Copy(t.Context(), s0, x, src),
		d1.(core.PeerCopier).CopyPeer(t.Context(), s1, y, x, d0),
		d1.Copy(t.Context(), s1, dst, y),
		dst.WaitReady(t.Context()),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func TestSubmitOrdersWorkAcrossStreams(t *testing.T) {
	want := []int32{1, 2, 3, 4, 5}
	for _, hostWaits := range []bool{false, true} {
		wrong := 0
		for seed := range uint64(50) {
			o := coretest.Options{Seed: seed + 1, HostWaits: hostWaits}
			if got := chain(t, o, want); !slices.Equal(got, want) {
				t.Errorf("seed %d, host waits %v: got %v", o.Seed, hostWaits, got)
			}
			o.Submit = unordered
			if !slices.Equal(chain(t, o, want), want) {
				wrong++
			}
		}
		if wrong == 0 {
			t.Error("a Submit that does not wait was never found out: this test cannot fail")
		}
	}
}

func TestSubmitWaitsBeforeItOverwrites(t *testing.T) {
	for seed := range uint64(50) {
		b := newBackend(t, coretest.Options{Seed: seed + 1})
		d := open(t, b, 0)
		reading, writing := newStream(t, d), newStream(t, d)
		first, second, got := []int32{1, 1}, []int32{2, 2}, make([]int32, 2)
		x, dst := empty(t, d, core.TypeInt32, 2), host(t, got)
		for _, err := range []error{
			d.Copy(t.Context(), reading, x, host(t, first)),
			d.Copy(t.Context(), reading, dst, x),
			d.Copy(t.Context(), writing, x, host(t, second)), // must not overtake the read
			x.WaitReady(t.Context()),
			dst.WaitReady(t.Context()),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, first) {
			t.Fatalf("seed %d: the read got %v, want %v", seed+1, got, first)
		}
	}
}

// The tensors may be closed when Submit has returned: their memory stays until the work is done.
func TestSubmitHoldsMemoryUntilTheWorkIsDone(t *testing.T) {
	for seed := range uint64(50) {
		b := newBackend(t, coretest.Options{Seed: seed + 1})
		d := open(t, b, 0)
		s := newStream(t, d)
		want, got := []int64{7, 8, 9}, make([]int64, 3)
		dst := host(t, got)
		x := empty(t, d, core.TypeInt64, 3)
		for _, err := range []error{
			d.Copy(t.Context(), s, x, host(t, want)),
			d.Copy(t.Context(), s, dst, x),
			x.Close(),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		// Memory that was freed too early would be this one, and poisoned.
		empty(t, d, core.TypeInt64, 3)
		if err := dst.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %x, want %v", seed+1, got, want)
		}
	}
}

func TestSubmitFailsAtEachStepAndLeavesNothing(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		call string
		want error // nil: the failure is made good
	}{
		{"Wait", broken},
		{"Enqueue", broken},
		{"Record", nil}, // the work is done before Submit returns
		{"work", nil},   // told by the event
	} {
		t.Run(c.call, func(t *testing.T) {
			coretest.CheckNoLeaks(t)
			b := newBackend(t, coretest.Options{})
			d := open(t, b, 0)
			s0, s1 := newStream(t, d), newStream(t, d)
			want, got := []int32{1, 2}, []int32{0, 0}
			x, dst := empty(t, d, core.TypeInt32, 2), host(t, got)
			if err := d.Copy(t.Context(), s0, x, host(t, want)); err != nil {
				t.Fatal(err)
			}
			n := 1
			if c.call == "work" {
				n = 2 // the first is that of the copy before
			}
			fired := b.Fail(c.call, n, broken)
			err := d.Copy(t.Context(), s1, dst, x)
			if !errors.Is(err, c.want) {
				t.Fatalf("Copy gives %v, want %v", err, c.want)
			}
			if c.call == "Record" && (!slices.Equal(got, want) || dst.Ready() != nil) {
				t.Errorf("without an event the work must be done at once; got %v", got)
			}
			ready := dst.WaitReady(t.Context())
			if failed := errors.Is(ready, broken); failed != (c.call == "work") {
				t.Errorf("Ready ends with %v", ready)
			}
			if c.call == "work" {
				// A reader learns of it; a writer does not care.
				if err := d.Copy(t.Context(), s1, x, dst); !errors.Is(err, broken) {
					t.Errorf("reading what failed work wrote gives %v", err)
				}
				if err := d.Copy(t.Context(), s1, dst, x); err != nil {
					t.Errorf("overwriting it gives %v", err)
				}
			} else if err := d.Copy(t.Context(), s1, dst, x); err != nil {
				t.Errorf("another try gives %v", err)
			}
			if err := dst.WaitReady(t.Context()); err != nil || !slices.Equal(got, want) {
				t.Errorf("in the end: %v, %v", got, err)
			}
			if !fired() {
				t.Error("the fault was never reached")
			}
		})
	}
}

func TestSubmitOnALostDevice(t *testing.T) {
	coretest.CheckNoLeaks(t)
	b := newBackend(t, coretest.Options{})
	d := open(t, b, 0)
	s := newStream(t, d)
	x := empty(t, d, core.TypeInt32, 1)
	src := host(t, []int32{1})
	if err := d.Copy(t.Context(), s, x, src); err != nil {
		t.Fatal(err)
	}
	b.Lose(0)
	if err := x.WaitReady(t.Context()); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("unfinished work ends with %v", err)
	}
	if err := stream.Submit(t.Context(), s, []*core.Tensor{x}, nil, fails(nil)); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("Submit gives %v", err)
	}
	if err := x.WaitReady(t.Context()); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("the tensor that should have been written holds %v", err)
	}
}

func TestSubmitRefuses(t *testing.T) {
	q := newQueue(t)
	open, closed := host(t, []int8{1}), host(t, []int8{2})
	_ = closed.Close()
	shut := stream.NewQueue(nil)
	_ = shut.Close()
	list := func(t ...*core.Tensor) []*core.Tensor { return t }
	for _, c := range []struct {
		name          string
		s             core.Stream
		writes, reads []*core.Tensor
		enqueue       func() error
		want          error
	}{
		{"no stream", nil, nil, list(open), fails(nil), core.ErrInvalid},
		{"no work", q, nil, list(open), nil, core.ErrInvalid},
		{"a nil write", q, list(open, nil), nil, fails(nil), core.ErrInvalid},
		{"a nil read", q, list(open), list(nil), fails(nil), core.ErrInvalid},
		{"a closed write", q, list(open, closed), nil, fails(nil), core.ErrClosed},
		{"a closed read", q, nil, list(open, closed), fails(nil), core.ErrClosed},
		{"enqueue fails", q, list(open), list(open), fails(errA), errA},
		{"a closed queue", shut, list(open), nil, func() error { return shut.Enqueue(fails(nil)) }, core.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := stream.Submit(t.Context(), c.s, c.writes, c.reads, c.enqueue); !errors.Is(err, c.want) {
				t.Errorf("Submit gives %v, want %v", err, c.want)
			}
			if e := open.Ready(); e != nil {
				t.Error("a Submit that enqueued nothing must leave no event")
			}
		})
	}
}

func TestSubmitEndsWithItsContextWhereTheHostWaits(t *testing.T) {
	checkNoGoroutines(t)
	b := newBackend(t, coretest.Options{HostWaits: true})
	s := newStream(t, open(t, b, 0))
	never := stream.NewEvent()
	x := host(t, []int8{1})
	buffer, _ := x.Buffer()
	buffer.Wrote(never)
	for _, list := range [][2][]*core.Tensor{{{x}, nil}, {nil, {x}}} {
		short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		err := stream.Submit(short, s, list[0], list[1], func() error { t.Error("the work was enqueued"); return nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Submit gives %v", err)
		}
		cancel()
	}
	never.Complete(nil)
}

func TestSubmitOnQueuesPassesErrorsOnToReadersOnly(t *testing.T) {
	gate := stream.NewEvent()
	writer, reader := newQueue(t), newQueue(t)
	x, y := host(t, []int8{1}), host(t, []int8{2})
	list := func(t ...*core.Tensor) []*core.Tensor { return t }
	submit := func(q *stream.Queue, writes, reads []*core.Tensor, err error) {
		t.Helper()
		if err := stream.Submit(t.Context(), q, writes, reads, func() error { return q.Enqueue(fails(err)) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Wait(gate); err != nil {
		t.Fatal(err)
	}
	submit(writer, list(x), nil, errA)
	submit(reader, list(y), list(x), nil)
	read := y.Ready()
	submit(reader, list(x), nil, nil) // overwrites
	gate.Complete(nil)
	if err := read.Wait(t.Context()); !errors.Is(err, errA) {
		t.Errorf("what was made of a failed write gives %v, want its error", err)
	}
	if err := x.WaitReady(t.Context()); err != nil {
		t.Errorf("what was overwritten gives %v", err)
	}
}

// Several goroutines share a queue; the event of each carries its own errors, and
// those of what its own work has read.
func TestSubmitTellsErrorsToWhoseTheyAre(t *testing.T) {
	q := newQueue(t)
	var workers sync.WaitGroup
	for g := range 8 {
		x, y, z := host(t, []int8{0}), host(t, []int8{0}), host(t, []int8{0})
		input, err := y.Buffer()
		pause, pauseErr := z.Buffer()
		if err := errors.Join(err, pauseErr); err != nil {
			t.Fatal(err)
		}
		workers.Go(func() {
			for i := range 1000 {
				work, read := error(nil), error(nil)
				switch {
				case g%2 == 0 && i%3 == 0:
					work = errA
				case g%2 == 1 && i%5 == 0:
					read = errB
				}
				written := stream.NewEvent()
				input.Wrote(written)
				pause.Wrote(yielding{written})
				err := stream.Submit(t.Context(), q, []*core.Tensor{x}, []*core.Tensor{y, z}, func() error { return q.Enqueue(fails(work)) })
				written.Complete(read)
				if err == nil {
					err = x.WaitReady(t.Context())
				}
				if want := cmp.Or(work, read); !errors.Is(err, want) {
					t.Errorf("goroutine %d, round %d: got %v, want %v", g, i, err, want)
					return
				}
			}
		})
	}
	workers.Wait()
}

// yielding is an event that lets other goroutines run when it is looked at.
type yielding struct{ core.Event }

func (e yielding) Done() (bool, error) {
	runtime.Gosched()
	return e.Event.Done()
}

func TestSubmitAndWaitWaitsForWhatIsBeforeAndForTheWork(t *testing.T) {
	b := newBackend(t, coretest.Options{})
	d := open(t, b, 0)
	s := newStream(t, d)
	x, y := empty(t, d, core.TypeInt32, 3), empty(t, d, core.TypeInt32, 3)
	if err := errors.Join(
		d.Copy(t.Context(), s, x, host(t, []int32{1, 2, 3})),
		stream.SubmitAndWait(t.Context(), s, []*core.Tensor{y}, []*core.Tensor{x}, func() error { return d.Copy(t.Context(), newStream(t, d), y, x) }),
	); err != nil {
		t.Fatal(err)
	}
	if e := x.Ready(); e != nil {
		t.Errorf("what the work reads was not waited for: %v", e)
	}
	closed := empty(t, d, core.TypeInt32, 3)
	_ = closed.Close()
	if err := stream.SubmitAndWait(t.Context(), s, []*core.Tensor{closed}, nil, func() error { return nil }); !errors.Is(err, core.ErrClosed) {
		t.Errorf("a closed tensor: %v", err)
	}
	if err := stream.SubmitAndWait(t.Context(), nil, nil, nil, nil); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a nil stream: %v", err)
	}
	failed := errors.New("not enqueued")
	if err := stream.SubmitAndWait(t.Context(), s, []*core.Tensor{x}, nil, func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("work that is not enqueued: %v", err)
	}
}

func TestAcquireHoldsAndWaits(t *testing.T) {
	x, y := host(t, []int32{1}), host(t, []int32{2})
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	before := stream.NewEvent()
	b.Used(before)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := stream.Acquire(ended, []*core.Tensor{x}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a use that goes on, and a context that has ended: %v", err)
	}
	before.Complete(errors.New("what is overwritten may have failed"))
	many := []*core.Tensor{x, x, x, x, x}
	uses, err := stream.Acquire(t.Context(), many, []*core.Tensor{y})
	if err != nil {
		t.Fatal(err)
	}
	done := stream.NewEvent()
	uses.Note(done)
	uses.Release()
	uses.Release()
	if x.Ready() != core.Event(done) {
		t.Errorf("the last write is %v", x.Ready())
	}
	done.Complete(errors.New("failed"))
	if _, err := stream.Acquire(t.Context(), nil, []*core.Tensor{x}); err == nil {
		t.Error("a failed write may be read")
	}
	if _, err := stream.Acquire(t.Context(), nil, []*core.Tensor{nil}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a nil tensor: %v", err)
	}
}

// Do waits for what comes before, and what comes after waits for it, whether anything came before or not.
func TestDo(t *testing.T) {
	for name, busy := range map[string]string{"idle": "", "the written tensor is busy": "x", "the read one is busy": "y"} {
		x, y := host(t, []int32{1}), host(t, []int32{2})
		before := &watched{Event: stream.NewEvent(), waited: make(chan struct{})}
		for tensor, of := range map[string]*core.Tensor{"x": x, "y": y} {
			if b, err := of.Buffer(); err != nil {
				t.Fatal(err)
			} else if tensor == busy {
				b.Wrote(before)
			}
		}
		began, end := make(chan struct{}), make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- stream.Do(t.Context(), []*core.Tensor{x}, []*core.Tensor{y}, func() error {
				if done, _ := before.Done(); busy != "" && !done {
					t.Errorf("%s: Do did not wait", name)
				}
				close(began)
				<-end
				return nil
			})
		}()
		if busy != "" {
			select {
			case <-before.waited:
			case <-began: // which has reported it
			}
		}
		before.Complete(nil)
		<-began
		for tensor, of := range map[string]*core.Tensor{"x": x, "y": y} {
			b, err := of.Buffer()
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Pending()) == 0 {
				t.Errorf("%s: %s has no work while Do works on it", name, tensor)
			}
		}
		if x.Ready() == nil || y.Ready() != nil {
			t.Errorf("%s: Do is not the last write of x alone", name)
		}
		close(end)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if x.Ready() != nil {
			t.Errorf("%s: the write is not done after Do", name)
		}
	}
}

// watched is an event that tells when somebody waits for it.
type watched struct {
	*stream.Event
	once   sync.Once
	waited chan struct{}
}

func (w *watched) Wait(ctx context.Context) error {
	w.once.Do(func() { close(w.waited) })
	return w.Event.Wait(ctx)
}

// Work that panics is over, and has failed.
func TestDoPanics(t *testing.T) {
	x := host(t, []int32{1})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was lost")
			}
		}()
		_ = stream.Do(t.Context(), []*core.Tensor{x}, nil, func() error { panic("work") })
	}()
	if err := x.WaitReady(t.Context()); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("the write is %v", err)
	}
}

func TestDoFails(t *testing.T) {
	x, y := host(t, []int32{1}), host(t, []int32{2})
	lists := func(t ...*core.Tensor) []*core.Tensor { return t }
	failed := errors.New("the work fails")
	if err := stream.Do(t.Context(), lists(x), lists(y, x), func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("the work of Do: %v", err)
	}
	none := func() error { t.Error("the work was done"); return nil }
	if err := stream.Do(t.Context(), lists(y), lists(x), none); !errors.Is(err, failed) {
		t.Errorf("a failed write is read: %v", err)
	}
	if y.Ready() != nil {
		t.Error("what Do did not write waits for it")
	}
	if err := stream.Do(t.Context(), lists(y), lists(nil), none); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a nil tensor: %v", err)
	}
	b, err := y.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	before := stream.NewEvent()
	b.Wrote(before)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := stream.Do(ended, lists(x), lists(y), none); !errors.Is(err, context.Canceled) {
		t.Errorf("the context has ended: %v", err)
	}
	before.Complete(nil)
	if err := stream.Do(t.Context(), lists(x), lists(y), func() error { return nil }); err != nil || x.Ready() != nil {
		t.Errorf("a write after a failed one: %v", err)
	}
}

// What is made of a failed write has failed, on every stream: see package core.
func TestAnErrorFollowsTheData(t *testing.T) {
	for _, hostWaits := range []bool{false, true} {
		b := newBackend(t, coretest.Options{HostWaits: hostWaits})
		d := open(t, b, 0)
		s0, s1 := newStream(t, d), newStream(t, d)
		x, y, z := empty(t, d, core.TypeInt32, 3), empty(t, d, core.TypeInt32, 3), empty(t, d, core.TypeInt32, 3)
		failed := errors.New("the first copy fails")
		b.Fail("work", 1, failed)
		err := cmp.Or(d.Copy(t.Context(), s0, x, host(t, []int32{1, 2, 3})),
			d.Copy(t.Context(), s1, y, x),
			d.Copy(t.Context(), s1, z, y),
			z.WaitReady(t.Context()))
		if !errors.Is(err, failed) {
			t.Errorf("host waits %v: what was made of a failed write: %v", hostWaits, err)
		}
		// What is overwritten may have failed.
		if err := cmp.Or(d.Copy(t.Context(), s1, z, host(t, []int32{4, 5, 6})), z.WaitReady(t.Context())); err != nil {
			t.Errorf("host waits %v: a copy over a failed one: %v", hostWaits, err)
		}
		_, _ = s0.Synchronize(t.Context()), s1.Synchronize(t.Context())
	}
}

// countingStream counts the events that it waits for.
type countingStream struct {
	core.Stream
	waits int
}

func (s *countingStream) Wait(e core.Event) error {
	s.waits++
	return s.Stream.Wait(e)
}

// Submit waits for the last write of each tensor that is read, and once for tensors that were written together.
func TestSubmitWaitsForEachSource(t *testing.T) {
	for seed := range uint64(20) {
		b := newBackend(t, coretest.Options{Seed: seed + 1})
		d := open(t, b, 0)
		writing, own := newStream(t, d), newStream(t, d)
		reading := &countingStream{Stream: own}
		const n = 6
		var x, from, got []*core.Tensor
		values := make([][]int32, n)
		for i := range int32(n) {
			values[i] = make([]int32, 1)
			x, from, got = append(x, empty(t, d, core.TypeInt32, 1)), append(from, host(t, []int32{i + 1})), append(got, host(t, values[i]))
		}
		// The first three are written together, the others by themselves.
		if err := d.(core.BatchCopier).CopyBatch(t.Context(), writing, x[:3], from[:3]); err != nil {
			t.Fatal(err)
		}
		for i := 3; i < n; i++ {
			if err := d.Copy(t.Context(), writing, x[i], from[i]); err != nil {
				t.Fatal(err)
			}
		}
		err := stream.Submit(t.Context(), reading, nil, x, func() error {
			return own.(*coretest.Stream).Enqueue(func() error {
				for i := range x {
					if err := coretest.CopyNaive(got[i], x[i]); err != nil {
						return err
					}
				}
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if reading.waits != 4 {
			t.Errorf("seed %d: the stream waits %d times for 4 events", seed+1, reading.waits)
		}
		if err := own.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if v[0] != int32(i+1) {
				t.Errorf("seed %d: tensor %d was read as %d before it was written", seed+1, i, v[0])
			}
		}
	}
}
