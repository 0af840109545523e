package exchange

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// TensorError says which tensor of a call of [ToAll] could not be moved, and why.
type TensorError struct {
	Index int   // in the list of sources
	Err   error // the error of [To] for that tensor
}

// Error returns the index and the text of Err.
func (e *TensorError) Error() string { return fmt.Sprintf("tensor %d: %v", e.Index, e.Err) }

// Unwrap returns Err.
func (e *TensorError) Unwrap() error { return e.Err }

// ToAll moves many tensors to dst, such as the weights of a model. It does for each tensor
// what [To] does with the same options, but small copies cost much less together: those that
// one device makes go to it in one submission, if the device is a [core.BatchCopier], and
// otherwise to one of its streams. The order of the copies is not defined.
//
// results[i] and reports[i] are those of srcs[i]. The caller still owns the sources, which
// stay open, and closes each result. No two copies share an allocation, so that closing one
// frees its memory. As with To, a result may be the memory of its source; if a tensor is in
// srcs twice, two results then have the same memory. The Duration of each report is that of
// the whole call. If work on one tensor fails after ToAll has returned, the events of others
// that were copied with it may report that, too.
//
//	results, _, err := exchange.ToAll(ctx, weights, gpu, exchange.Options{})
//	if err != nil {
//		return err
//	}
//	defer func() {
//		for _, t := range results {
//			t.Close()
//		}
//	}()
//
// ToAll moves all tensors or none: if one cannot be moved, ToAll closes the results that it
// has made, and returns no results and no reports. The error is then a [*TensorError] that
// wraps the error of To for that tensor. If several cannot be moved, it names one of them.
// Errors that concern no single tensor are returned as they are: core.ErrInvalid if dst is
// nil or an option is not known, core.ErrDevice if a stream belongs to another device, and
// ctx's error.
func ToAll(ctx context.Context, srcs []*core.Tensor, dst core.Device, o Options) (results []*core.Tensor, reports []Report, err error) {
	if o.Tracer != nil {
		return traceAll(ctx, srcs, dst, o)
	}
	if o.Convert != nil {
		return toAllConverted(ctx, srcs, dst, o)
	}
	defer func() {
		if err != nil {
			privateCore.MoveFailed(err)
		}
	}()
	start := time.Now()
	if err := (&move{call: "ToAll", dst: dst, o: o}).checkRest(); err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	b := &batch{
		moves: make([]move, len(srcs)), results: make([]*core.Tensor, len(srcs)), reports: make([]Report, len(srcs)),
		handed: make(map[core.Event]stream.Wait),
	}
	defer b.release()
	for i, src := range srcs {
		b.moves[i] = move{call: "ToAll", src: src, dst: dst, o: o}
	}
	if err := b.run(ctx); err != nil {
		for i := range b.results {
			b.close(i)
		}
		return nil, nil, err
	}
	took := time.Since(start)
	for i := range b.reports {
		b.moves[i].count(&b.reports[i], nil)
		b.reports[i].Duration = took
	}
	return b.results, b.reports, nil
}

// batch is the moves of one call of ToAll.
type batch struct {
	moves   []move
	looked  int // so many have looked at their source
	results []*core.Tensor
	reports []Report
	copies  []*copies
	handed  map[core.Event]stream.Wait // what Options.Stream waits for, and how
}

// copies are those that one device makes on one stream.
type copies struct {
	device core.Device
	items  []copyItem
}

// copyItem is one of them: a move and how to carry it out.
type copyItem struct {
	index int
	plan  *plan
	way   int
	*copying
}

func (b *batch) release() {
	for i := range b.looked {
		b.moves[i].release()
	}
}

// close closes a result, if there is one.
func (b *batch) close(i int) {
	if b.results[i] != nil {
		_ = b.results[i].Close()
		b.results[i] = nil
	}
}

// fails returns err as the error of a tensor, unless it is that of the whole call.
func fails(ctx context.Context, i int, err error) error {
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return &TensorError{Index: i, Err: err}
}

func (b *batch) run(ctx context.Context) error {
	for i := range b.moves {
		m := &b.moves[i]
		err := m.check()
		if err == nil {
			err = m.look()
		}
		if err != nil {
			return fails(ctx, i, err)
		}
		b.looked++
	}
	if err := b.noteSourceStream(ctx); err != nil {
		return err
	}
	for i := range b.moves {
		if err := b.move(ctx, i); err != nil {
			return fails(ctx, i, err)
		}
	}
	for _, c := range b.copies {
		if err := b.copy(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// noteSourceStream makes all work on Options.SourceStream the last write of every source.
func (b *batch) noteSourceStream(ctx context.Context) error {
	if len(b.moves) == 0 || b.moves[0].o.SourceStream == nil {
		return nil
	}
	list := make([]*core.Tensor, 0, len(b.moves))
	defer func() {
		for _, t := range list {
			_ = t.Close()
		}
	}()
	for i := range b.moves {
		t, err := core.NewTensor(b.moves[i].root, b.moves[i].spec)
		if err != nil {
			return fails(ctx, i, err)
		}
		list = append(list, t)
	}
	if stream.Submit(ctx, b.moves[0].o.SourceStream, list, list, func() error { return nil }) == nil {
		return nil
	}
	for i := range b.moves { // one at a time, to know which one fails
		if err := b.moves[i].noteSourceStream(ctx); err != nil {
			return fails(ctx, i, err)
		}
	}
	return nil
}

// move moves a tensor, unless it is one of those that are copied together.
func (b *batch) move(ctx context.Context, i int) error {
	m := &b.moves[i]
	t, a, err := m.warm()
	if err != nil {
		return err
	}
	if t != nil {
		b.results[i] = t
		b.reports[i] = Report{From: m.from.ID, To: m.dst.ID(), Mechanism: a.taken.mechanism, account: a}
		return b.handoff(ctx, i)
	}
	p := newPlan(m)
	if d, best := m.together(p); d != nil {
		b.add(d, copyItem{index: i, plan: p, way: best})
		return nil
	}
	return b.alone(ctx, i, p)
}

// alone moves a tensor by itself.
func (b *batch) alone(ctx context.Context, i int, p *plan) (err error) {
	cold := b.moves[i]
	b.results[i], b.reports[i], err = cold.run(ctx, p)
	return err
}

// together returns the device that copies the tensor, and the index of that way, if the best
// way of a plan is one copy between two memories that the device reaches by itself.
func (m *move) together(p *plan) (core.Device, int) {
	best := p.best()
	if best < 0 || p.ways[best].copies {
		return nil, 0
	}
	switch p.ways[best].method {
	case &copyIn:
		return m.dst, best
	case &copyOut:
		return m.from.Device, best
	}
	return nil, 0
}

// add adds a copy to those of a device.
func (b *batch) add(d core.Device, item copyItem) {
	i := slices.IndexFunc(b.copies, func(c *copies) bool { return c.device == d })
	if i < 0 {
		i = len(b.copies)
		b.copies = append(b.copies, &copies{device: d})
	}
	b.copies[i].items = append(b.copies[i].items, item)
}

// copy makes the copies of a device together. If that fails, it moves the tensors one at a
// time, which finds other ways, or the tensor that cannot be moved.
func (b *batch) copy(ctx context.Context, c *copies) error {
	err := b.copyTogether(ctx, c)
	for _, item := range c.items {
		var e error
		if err == nil {
			e = b.handoff(ctx, item.index)
		} else {
			b.close(item.index)
			e = b.alone(ctx, item.index, item.plan)
		}
		if e != nil {
			return fails(ctx, item.index, e)
		}
	}
	return nil
}

// copyTogether makes the copies of a device, and their results, of which there may be some
// if it fails.
func (b *batch) copyTogether(ctx context.Context, c *copies) error {
	dst, src := make([]*core.Tensor, 0, len(c.items)), make([]*core.Tensor, 0, len(c.items))
	defer func() {
		for _, list := range [...][]*core.Tensor{dst, src} {
			for _, t := range list {
				_ = t.Close()
			}
		}
	}()
	for i := range c.items {
		item := &c.items[i]
		m := &b.moves[item.index]
		item.copying = m.copying()
		t, err := core.NewTensor(m.root, item.source)
		if err != nil {
			return err
		}
		src = append(src, t)
		if err := m.allocate(ctx, item.copying); err != nil {
			return err
		}
		dst = append(dst, item.fresh)
	}
	first := &b.moves[c.items[0].index]
	err := first.onStream(ctx, c.device, func(s core.Stream) error { return privateCore.CopyAll(ctx, c.device, s, dst, src) })
	if err != nil {
		return err
	}
	for i := range c.items {
		item := &c.items[i]
		t, err := on(item.fresh, item.result)
		if err != nil {
			return err
		}
		b.results[item.index] = t
		r := run{move: &b.moves[item.index], plan: item.plan, ways: item.plan.ways}
		b.reports[item.index] = r.report(item.way)
	}
	return nil
}

// handoff makes Options.Stream wait until a result may be read. Results that were written
// together have one event, for which the stream waits once.
func (b *batch) handoff(ctx context.Context, i int) error {
	m, t := &b.moves[i], b.results[i]
	if m.o.Stream == nil {
		return nil
	}
	buffer, err := t.Buffer()
	if err != nil {
		return err
	}
	e := privateCore.LastWrite(buffer)
	if e == nil || !reflect.TypeOf(e).Comparable() {
		how, err := m.handoff(ctx, t)
		b.reports[i].waited(how, m.o.Stream)
		return err
	}
	how, ok := b.handed[e]
	if !ok {
		if how, err = m.handoff(ctx, t); err != nil {
			return err
		}
		b.handed[e] = how
	}
	b.reports[i].waited(how, m.o.Stream)
	return nil
}
