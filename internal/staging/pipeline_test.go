package staging_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/internal/staging"
)

// room is a staging buffer. Work that uses it keeps it, as work keeps the memory of a tensor.
type room struct {
	holds int  // the piece in it; 0 if it is empty
	users int  // the owner and unfinished work
	freed bool // after the last of them
}

// rig is both sides of a copy: each has a queue of enqueued work, which is done when something waits for it.
type rig struct {
	t       *testing.T
	sync    bool // steps do their work at once
	clock   int  // work that was enqueued
	done    int  // and that is done
	queue   []func()
	log     []string
	ends    []int // how much of log each call of the pipeline has ended with
	arrived []int
	live    int               // rooms
	fail    string            // the step that fails
	err     error             // its error
	end     map[string]func() // what happens after a step
}

// run does a step, unless it is the one that fails.
func (r *rig) run(step string) error {
	r.log = append(r.log, step)
	if step == r.fail {
		return r.err
	}
	if f := r.end[step]; f != nil {
		f()
	}
	return nil
}

// enqueue enqueues work with a room, and returns its mark.
func (r *rig) enqueue(b *room, work func()) int {
	b.users++
	r.queue = append(r.queue, func() {
		if b.freed {
			r.t.Error("work touches a buffer that was freed")
		}
		work()
		r.drop(b)
	})
	r.clock++
	if r.sync {
		r.advance(r.clock)
	}
	return r.clock
}

// drop takes one user from a room.
func (r *rig) drop(b *room) {
	if b.users--; b.users == 0 {
		b.freed = true
		r.live--
	}
}

// advance does all work up to a mark.
func (r *rig) advance(mark int) {
	for ; r.done < mark; r.done++ {
		r.queue[r.done]()
	}
}

// wait waits for a mark.
func (r *rig) wait(step string, mark int) error {
	if mark == 0 {
		return nil
	}
	if err := r.run(step); err != nil {
		return err
	}
	r.advance(mark)
	return nil
}

func (r *rig) Fill(ctx context.Context, b **room, piece int, free int) (int, error) {
	if *b == nil {
		if err := r.run(fmt.Sprint("alloc ", piece)); err != nil {
			return 0, err
		}
		*b = &room{users: 1}
		r.live++
	}
	if err := r.wait(fmt.Sprint("free ", piece), free); err != nil {
		return 0, err
	}
	if err := r.run(fmt.Sprint("fill ", piece)); err != nil {
		return 0, err
	}
	x := *b
	return r.enqueue(x, func() {
		if x.holds != 0 {
			r.t.Errorf("piece %d overwrites piece %d", piece, x.holds)
		}
		x.holds = piece
	}), nil
}

func (r *rig) Empty(ctx context.Context, b **room, piece int, filled int) (int, error) {
	if err := r.wait(fmt.Sprint("filled ", piece), filled); err != nil {
		return 0, err
	}
	if err := r.run(fmt.Sprint("empty ", piece)); err != nil {
		return 0, err
	}
	x := *b
	return r.enqueue(x, func() {
		if x.holds != piece {
			r.t.Errorf("the buffer holds piece %d, not %d", x.holds, piece)
		}
		r.arrived = append(r.arrived, piece)
		x.holds = 0
	}), nil
}

func (r *rig) release(b **room) {
	if *b != nil {
		r.drop(*b)
	}
}

var _ staging.Steps[*room, int, int] = (*rig)(nil)

// copyAll brings n pieces through a pipeline, and returns the error. At the end nothing is open.
func (r *rig) copyAll(ctx context.Context, late bool, n int) error {
	p := staging.Pipeline[*room, int, int]{Steps: r, Late: late}
	var err error
	for i := 1; i <= n && err == nil; i++ {
		err = p.Put(ctx, i)
		r.ends = append(r.ends, len(r.log))
	}
	if err == nil {
		err = p.Flush(ctx)
		r.ends = append(r.ends, len(r.log))
	}
	steps := len(r.log)
	if err != nil {
		if again := p.Put(ctx, 99); again != err {
			r.t.Errorf("after the error %v, Put returns %v", err, again)
		}
		if again := p.Flush(ctx); again != err {
			r.t.Errorf("after the error %v, Flush returns %v", err, again)
		}
	}
	p.Close(r.release)
	p.Close(r.release)
	if len(r.log) != steps {
		r.t.Errorf("after the end: %v", r.log[steps:])
	}
	r.advance(r.clock)
	if r.live != 0 {
		r.t.Errorf("%d buffers are open", r.live)
	}
	return err
}

// kinds calls f for all kinds of pipelines.
func kinds(t *testing.T, f func(t *testing.T, late bool, r *rig)) {
	for _, late := range []bool{false, true} {
		for _, sync := range []bool{false, true} {
			t.Run(fmt.Sprintf("late=%v/sync=%v", late, sync), func(t *testing.T) {
				f(t, late, &rig{t: t, sync: sync})
			})
		}
	}
}

func TestAPipelineBringsAllPiecesInOrder(t *testing.T) {
	kinds(t, func(t *testing.T, late bool, r *rig) {
		for n := range 6 {
			r.arrived = nil
			if err := r.copyAll(t.Context(), late, n); err != nil {
				t.Fatal(err)
			}
			want := []int{1, 2, 3, 4, 5}[:n]
			if !slices.Equal(r.arrived, want) {
				t.Errorf("%v arrived, want %v", r.arrived, want)
			}
		}
	})
}

// What the steps of a piece are, and before which others they come.
func TestAPipelineFillsOneBufferWhileTheOtherIsEmptied(t *testing.T) {
	for _, c := range []struct {
		late bool
		want []string
	}{
		{false, []string{
			"alloc 1", "fill 1", "filled 1", "empty 1", "alloc 2", "fill 2", "filled 2", "empty 2", "free 3", "fill 3", "filled 3", "empty 3",
		}},
		{true, []string{
			"alloc 1", "fill 1", "alloc 2", "fill 2", "filled 1", "empty 1", "free 3", "fill 3", "filled 2", "empty 2", "filled 3", "empty 3",
		}},
	} {
		r := &rig{t: t}
		if err := r.copyAll(t.Context(), c.late, 3); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.log, c.want) {
			t.Errorf("late %v: %v, want %v", c.late, r.log, c.want)
		}
	}
}

// Each step fails once: nothing comes after it, and nothing stays open.
func TestAPipelineStopsAtTheFirstError(t *testing.T) {
	const pieces = 5
	kinds(t, func(t *testing.T, late bool, whole *rig) {
		if err := whole.copyAll(t.Context(), late, pieces); err != nil {
			t.Fatal(err)
		}
		for i, step := range whole.log {
			r := &rig{t: t, sync: whole.sync, fail: step, err: errors.New(step)}
			if err := r.copyAll(t.Context(), late, pieces); err != r.err {
				t.Errorf("%s fails: error %v", step, err)
			}
			if want := whole.log[:i+1]; !slices.Equal(r.log, want) {
				t.Errorf("%s fails: the steps are %v, want %v", step, r.log, want)
			}
		}
	})
}

// A context ends during each step: the call to which the step belongs is the last.
func TestAPipelineEndsWithItsContext(t *testing.T) {
	const pieces = 5
	kinds(t, func(t *testing.T, late bool, whole *rig) {
		if err := whole.copyAll(t.Context(), late, pieces); err != nil {
			t.Fatal(err)
		}
		for i, step := range whole.log {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := &rig{t: t, sync: whole.sync, end: map[string]func(){step: cancel}}
			err := r.copyAll(ctx, late, pieces)
			end := whole.ends[slices.IndexFunc(whole.ends, func(n int) bool { return n > i })]
			if !slices.Equal(r.log, whole.log[:end]) {
				t.Errorf("ctx ends in %s: the steps are %v, want %v", step, r.log, whole.log[:end])
			}
			if all := end == len(whole.log); all != (err == nil) || !all && !errors.Is(err, context.Canceled) {
				t.Errorf("ctx ends in %s: error %v", step, err)
			}
		}
	})
}

func TestNextIsTheBufferOfTheNextPut(t *testing.T) {
	r := &rig{t: t}
	p := staging.Pipeline[*room, int, int]{Steps: r}
	defer func() { r.advance(r.clock) }()
	defer p.Close(r.release)
	if b, free := p.Next(); *b != nil || free != 0 {
		t.Errorf("a new pipeline: %v, free after %d", *b, free)
	}
	for i := 1; i <= 3; i++ {
		b, free := p.Next()
		if want := max(0, 2*i-4); free != want {
			t.Errorf("before piece %d: free after %d, want %d", i, free, want)
		}
		if err := p.Put(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		if *b == nil || (*b).users == 1 {
			t.Errorf("piece %d uses another buffer", i)
		}
	}
}

func TestAPipelineUsesTheBuffersThatItIsGiven(t *testing.T) {
	r := &rig{t: t, live: staging.Buffers}
	p := staging.Pipeline[*room, int, int]{Steps: r}
	var rooms [staging.Buffers]*room
	for i := range rooms {
		rooms[i] = &room{users: 1}
		p.Use(i, rooms[i])
	}
	for i := range 3 * staging.Buffers {
		if b, _ := p.Next(); *b != rooms[i%staging.Buffers] {
			t.Errorf("piece %d has another buffer", i)
		}
		if err := p.Put(t.Context(), i+1); err != nil {
			t.Fatal(err)
		}
	}
	p.Close(r.release)
	r.advance(r.clock)
	if r.live != 0 {
		t.Errorf("%d buffers are open", r.live)
	}
}
