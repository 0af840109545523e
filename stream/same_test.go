package stream_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// Two tensors are the same elements and do not know of each other's work: whoever
// waits for one behind SubmitSame waits for the write of the other.
func TestSubmitSameHandsOverTheOrder(t *testing.T) {
	failure := errors.New("the write failed")
	for _, outcome := range []error{nil, failure} {
		values := []int32{1, 2, 3}
		src, dst := host(t, values), host(t, values)
		b, err := src.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		write := stream.NewEvent()
		b.Wrote(write)
		q := newQueue(t)
		if err := stream.SubmitSame(t.Context(), q, dst, src); err != nil {
			t.Fatal(err)
		}
		later := record(t, q)
		if done, _ := later.Done(); done || dst.Ready() == nil {
			t.Error("the stream, or dst, knows nothing of the write")
		}
		write.Complete(outcome)
		if err := dst.WaitReady(t.Context()); !errors.Is(err, outcome) {
			t.Errorf("WaitReady of dst: %v, want %v", err, outcome)
		}
		if err := q.Synchronize(t.Context()); !errors.Is(err, outcome) {
			t.Errorf("Synchronize: %v, want %v", err, outcome)
		}
	}
}

// A device's stream does not pass on the error of what it waited for: the event does.
func TestSubmitSameTellsOfAFailedWriteOfAnotherStream(t *testing.T) {
	b := newBackend(t, coretest.Options{})
	d := open(t, b, 0)
	values := []int32{1, 2, 3}
	src, dst := host(t, values), host(t, values)
	writer, reader := newStream(t, d), newStream(t, d)
	failure := errors.New("the write failed")
	if err := stream.Submit(t.Context(), writer, []*core.Tensor{src}, nil, func() error {
		return writer.(interface{ Enqueue(func() error) error }).Enqueue(fails(failure))
	}); err != nil {
		t.Fatal(err)
	}
	if err := stream.SubmitSame(t.Context(), reader, dst, src); err != nil {
		t.Fatal(err)
	}
	if err := dst.WaitReady(t.Context()); !errors.Is(err, failure) {
		t.Errorf("WaitReady of dst: %v", err)
	}
	_, _ = writer.Synchronize(t.Context()), reader.Synchronize(t.Context())
}

func TestSubmitSameWithoutAStream(t *testing.T) {
	values := []int32{1, 2, 3}
	src, dst := host(t, values), host(t, values)
	if err := stream.SubmitSame(t.Context(), nil, dst, src); err != nil {
		t.Errorf("without any work: %v", err)
	}
	of := func(x *core.Tensor) *core.Buffer {
		b, err := x.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	use := stream.NewEvent()
	of(dst).Used(use)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := stream.SubmitSame(ended, nil, dst, src); !errors.Is(err, context.Canceled) {
		t.Errorf("while dst is read: %v", err)
	}
	use.Complete(errors.New("a reader failed"))
	if err := stream.SubmitSame(t.Context(), nil, dst, src); err != nil {
		t.Errorf("after a reader that failed: %v", err)
	}
	failure, write := errors.New("the write failed"), stream.NewEvent()
	write.Complete(failure)
	of(src).Wrote(write)
	for _, s := range []core.Stream{nil, newQueue(t)} {
		if err := stream.SubmitSame(t.Context(), s, dst, src); !errors.Is(err, failure) {
			t.Errorf("after a write that failed: %v", err)
		}
	}
	dst.Close()
	if err := stream.SubmitSame(t.Context(), nil, dst, src); !errors.Is(err, core.ErrClosed) {
		t.Errorf("of a closed tensor: %v", err)
	}
	if err := stream.SubmitSame(t.Context(), nil, nil, src); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("of no tensor: %v", err)
	}
}

// Tensors that keep one order know of all work; nothing is recorded, and no error lost.
func TestSubmitSameOfOneOrder(t *testing.T) {
	x := host(t, []int32{1, 2, 3})
	v, err := x.Share()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	write := stream.NewEvent()
	b.Wrote(write)
	q := newQueue(t)
	if err := stream.SubmitSame(t.Context(), q, x, v); err != nil {
		t.Fatal(err)
	}
	later := record(t, q)
	if done, _ := later.Done(); done || b.Ready() != core.Event(write) {
		t.Errorf("the stream does not wait, or the last write is %v", b.Ready())
	}
	write.Complete(nil)
	if err := later.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
