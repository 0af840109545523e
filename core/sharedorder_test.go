package core_test

import (
	"context"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// owned makes a tensor without elements, whose memory has the owner, and returns its buffer too.
func owned(t *testing.T, by core.Owner) (*core.Tensor, *core.Buffer) {
	t.Helper()
	v, err := core.Wrap(core.Memory{ID: core.CPU, Owner: by}, core.Spec{DType: core.TypeUint8, Shape: []int64{0}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := v.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	return v, b
}

func TestBuffersOfOneMemoryKeepOneOrder(t *testing.T) {
	first, origin := owned(t, nil)
	second, derived := owned(t, nil)
	third, further := owned(t, nil)
	derived.OrderWith(origin, 0)
	further.OrderWith(derived, 0)
	if origin.Origin() != origin || derived.Origin() != origin || further.Origin() != origin {
		t.Error("the origin is not the first buffer")
	}
	if origin.Ready() != nil || derived.Ready() != nil || len(further.Pending()) != 0 {
		t.Error("there is work before any")
	}
	write, read := newEvent(), newEvent()
	further.Wrote(write)
	derived.Used(read)
	for _, b := range []*core.Buffer{origin, derived, further} {
		if b.Ready() != core.Event(write) || len(b.Pending()) != 2 {
			t.Errorf("a buffer knows of %d pending works, last write %v; want 2 and the one write", len(b.Pending()), b.Ready())
		}
	}
	close(write.c)
	close(read.c)
	for _, v := range []*core.Tensor{third, second, first} {
		v.Close()
	}
}

func TestDerivedMemoryIsFreedAfterTheWorkOnItsOrigin(t *testing.T) {
	first, origin := owned(t, nil)
	owner := &orderedOwner{}
	second, derived := owned(t, owner)
	derived.OrderWith(origin, 0)
	write := newEvent()
	origin.Wrote(write)
	second.Close()
	if len(owner.pending) != 1 || owner.pending[0] != core.Event(write) {
		t.Errorf("the owner was told of %v; want the write on the origin", owner.pending)
	}
	if derived.Origin() != derived {
		t.Error("a freed buffer still keeps its origin alive")
	}
	close(write.c)
	first.Close()
}

func TestAttachmentsAreFreedOnceBeforeTheMemory(t *testing.T) {
	var freed []string
	note := func(name string) core.Owner { return core.FreeFunc(func() { freed = append(freed, name) }) }
	v, b := owned(t, note("memory"))
	kept := privateCore.Attach(b, note("kept"))
	taken := privateCore.Attach(b, note("taken"))
	if !taken() || taken() {
		t.Error("an attachment is taken back once")
	}
	v.Close()
	if want := []string{"kept", "memory"}; !slices.Equal(freed, want) {
		t.Errorf("freed %v, want %v", freed, want)
	}
	if kept() {
		t.Error("an attachment was taken back after it was freed")
	}
}

func TestAttachmentsOutliveWorkOnTheMemory(t *testing.T) {
	done := make(chan struct{})
	v, b := owned(t, nil)
	write := newEvent()
	b.Wrote(write)
	privateCore.Attach(b, core.FreeFunc(func() { close(done) }))
	v.Close()
	select {
	case <-done:
		t.Error("the attachment was freed while work on the memory was pending")
	default:
	}
	close(write.c)
	<-done
}

// TestAnOrderedOwnerIsToldAtOnceOfMemoryWithAttachments: else its device could not wait for it.
func TestAnOrderedOwnerIsToldAtOnceOfMemoryWithAttachments(t *testing.T) {
	detached := make(chan struct{})
	owner := &orderedOwner{}
	v, b := owned(t, owner)
	write := newEvent()
	b.Wrote(write)
	privateCore.Attach(b, core.FreeFunc(func() { close(detached) }))
	v.Close()
	if len(owner.pending) != 2 {
		t.Fatalf("the owner was told of %d events, want the write and the end of the attachment", len(owner.pending))
	}
	for _, e := range owner.pending {
		if done, _ := e.Done(); done {
			t.Error("an event is done while the write is not")
		}
	}
	close(write.c)
	for _, e := range owner.pending {
		if err := e.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	<-detached
}

// uncomparable is an event that == would panic on.
type uncomparable struct{ list []int }

func (uncomparable) Done() (bool, error)        { return false, nil }
func (uncomparable) Wait(context.Context) error { return nil }

func TestALaterEventStandsForOthers(t *testing.T) {
	first, origin := owned(t, nil)
	second, derived := owned(t, nil)
	derived.OrderWith(origin, 0)
	write, read, other, later := newEvent(), newEvent(), newEvent(), newEvent()
	origin.Wrote(write)
	origin.Used(read)
	origin.Used(other)
	origin.Used(uncomparable{[]int{1}})

	privateCore.Supersede(derived, []core.Event{newEvent()}, later) // of no work on this memory
	if n := len(origin.Pending()); n != 4 || slices.Contains(origin.Pending()[:2], core.Event(later)) {
		t.Errorf("%d pending works after an event that stands for none of them", n)
	}
	privateCore.Supersede(derived, []core.Event{read}, later)
	if n := len(origin.Pending()); n != 4 || origin.Ready() != core.Event(write) {
		t.Errorf("%d pending works, and the last write is %v; want 4 and the one that was", n, origin.Ready())
	}
	privateCore.Supersede(derived, []core.Event{write, later}, later)
	if n := len(origin.Pending()); n != 3 || origin.Ready() != core.Event(later) {
		t.Errorf("%d pending works, and the last write is %v; want 3 and the later event", n, origin.Ready())
	}
	close(later.c)
	if origin.Ready() != nil {
		t.Error("the last write is not over with the event that stands for it")
	}
	for _, e := range []*event{write, read, other} {
		close(e.c)
	}
	second.Close()
	first.Close()
}
