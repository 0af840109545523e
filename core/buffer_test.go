package core_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// event is done when its channel is closed.
type event struct {
	c   chan struct{}
	err error
}

func newEvent() *event { return &event{c: make(chan struct{})} }

func (e *event) Done() (bool, error) {
	select {
	case <-e.c:
		return true, e.err
	default:
		return false, nil
	}
}

func (e *event) Wait(ctx context.Context) error {
	select {
	case <-e.c:
		return e.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

type orderedOwner struct {
	owner
	pending []core.Event
}

func (o *orderedOwner) FreeAfter(pending []core.Event) { o.pending = pending }

func TestMemoryIsFreedAfterPendingWork(t *testing.T) {
	m, o := hostMemory(4)
	v, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{4}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := v.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	write, read := newEvent(), newEvent()
	b.Wrote(write)
	b.Used(read)
	b.Used(nil)
	if v.Ready() != core.Event(write) || len(b.Pending()) != 2 {
		t.Fatalf("ready %v, %d pending", v.Ready(), len(b.Pending()))
	}
	mustClose(t, v)
	close(read.c)
	runtime.Gosched()
	if o.freed.Load() != 0 {
		t.Fatal("freed while a write is pending")
	}
	close(write.c)
	for deadline := time.Now().Add(5 * time.Second); o.freed.Load() == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if n := o.freed.Load(); n != 1 {
		t.Errorf("freed %d times, want once", n)
	}
}

func TestOrderedOwnerGetsThePendingWork(t *testing.T) {
	o := &orderedOwner{}
	v, err := core.Wrap(core.Memory{ID: core.CPU, Owner: o}, core.Spec{DType: core.TypeUint8, Shape: []int64{0}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := v.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	first, second := newEvent(), newEvent()
	b.Wrote(first)
	b.Wrote(second) // hides no unfinished writer
	mustClose(t, v)
	if len(o.pending) != 2 || o.freed.Load() != 0 {
		t.Errorf("pending %v, freed %d", o.pending, o.freed.Load())
	}
}

func TestReadyKeepsFailedWritesAndForgetsGoodOnes(t *testing.T) {
	v, err := core.FromSlice([]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	b, err := v.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	good := newEvent()
	b.Wrote(good)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := v.WaitReady(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("WaitReady before the write is done: %v", err)
	}
	close(good.c)
	if v.Ready() != nil || v.WaitReady(t.Context()) != nil {
		t.Error("a write that went well is still pending")
	}
	bad := newEvent()
	bad.err = core.ErrDeviceLost
	close(bad.c)
	b.Wrote(bad)
	if err := v.WaitReady(t.Context()); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("WaitReady after a failed write: %v, want ErrDeviceLost", err)
	}
	o := &orderedOwner{}
	w, err := core.Wrap(core.Memory{ID: core.CPU, Owner: o}, core.Spec{DType: core.TypeUint8, Shape: []int64{0}})
	if err != nil {
		t.Fatal(err)
	}
	wb, err := w.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	wb.Wrote(bad)
	mustClose(t, w)
	if o.freed.Load() != 1 || o.pending != nil {
		t.Error("a write that failed is over, but the release waits for it")
	}
	b.Wrote(nil)
	if err := v.WaitReady(t.Context()); err != nil {
		t.Errorf("a new write did not replace the failed one: %v", err)
	}
}

// Buffers lie in chunks, so one that is open keeps freed ones reachable.
func TestAFreedBufferKeepsNoEventAlive(t *testing.T) {
	collected := make(chan struct{})
	buffers := make([]*core.Buffer, 2)
	for i := range buffers {
		v, err := core.Wrap(core.Memory{ID: core.CPU, Owner: &orderedOwner{}}, core.Spec{DType: core.TypeUint8, Shape: []int64{0}})
		if err != nil {
			t.Fatal(err)
		}
		if buffers[i], err = v.Buffer(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			e := newEvent()
			close(e.c)
			e.err = core.ErrDeviceLost // a write that failed is kept, so that its error is not lost
			runtime.AddCleanup(e, func(c chan struct{}) { close(c) }, collected)
			buffers[i].Wrote(e)
			mustClose(t, v)
		} else {
			defer v.Close()
		}
	}
	for range 1000 {
		runtime.GC()
		select {
		case <-collected:
			runtime.KeepAlive(buffers)
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Error("the event is still reachable")
	runtime.KeepAlive(buffers)
}

func TestRetainAfterTheEndFails(t *testing.T) {
	v, err := core.FromSlice([]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := v.Buffer()
	if err != nil || b.Retain() != nil {
		t.Fatal("Retain of an open buffer")
	}
	mustClose(t, v)
	if _, err := core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{2}}); !errors.Is(err, core.ErrLayout) {
		t.Errorf("a view beyond the memory: %v, want ErrLayout", err)
	}
	w, err := core.NewTensor(b, core.Spec{DType: core.TypeInt8, Shape: []int64{1}})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, w)
	b.Release()
	if err := b.Retain(); !errors.Is(err, core.ErrClosed) {
		t.Errorf("Retain after the last Release: %v, want ErrClosed", err)
	}
	if _, err := core.NewTensor(b, core.Spec{DType: core.TypeInt8}); !errors.Is(err, core.ErrClosed) {
		t.Errorf("NewTensor after the last Release: %v, want ErrClosed", err)
	}
}
