package backendtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// window is a part of two tensors with the same shape on both sides.
type window struct {
	dst, src ranges
	reversed bool // the order of the axes, on both sides
}

// ranges are what is taken of each axis.
type ranges []span

// span takes the elements start, start+step and so on, n of them.
type span struct{ start, step, n int64 }

// stop is where [core.Tensor.Slice] ends: just beyond the last element.
func (a span) stop() int64 {
	last := a.start + (a.n-1)*a.step
	if a.step < 0 {
		return last - 1
	}
	return last + 1
}

// newWindow chooses a window of tensors with these shapes, which have the same rank.
func newWindow(rng *rand.Rand, dst, src []int64) window {
	w := window{dst: make(ranges, len(dst)), src: make(ranges, len(src)), reversed: rng.IntN(3) == 0}
	whole := rng.IntN(3) == 0 && slices.Equal(dst, src)
	for i := range dst {
		n := min(dst[i], src[i])
		if !whole {
			n = 1 + rng.Int64N(n)
		}
		for _, side := range []struct {
			r      ranges
			extent int64
		}{{w.dst, dst[i]}, {w.src, src[i]}} {
			r := &side.r[i]
			r.n, r.step = n, 1
			if whole {
				continue
			}
			if room := side.extent / n; room > 1 {
				r.step += rng.Int64N(room)
			}
			reach := (n - 1) * r.step
			r.start = rng.Int64N(side.extent - reach)
			if rng.IntN(3) == 0 {
				r.start, r.step = r.start+reach, -r.step
			}
		}
	}
	return w
}

// String gives "[1:7:2 5:-1:-1]": start, stop and step of each axis.
func (r ranges) String() string {
	parts := make([]string, len(r))
	for i, a := range r {
		parts[i] = fmt.Sprintf("%d:%d:%d", a.start, a.stop(), a.step)
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// apply copies or converts the window of one pair of tensors by run, and that of their models by onModel.
func (w window) apply(dst, src, dstModel, srcModel *core.Tensor, run, onModel func(dst, src *core.Tensor) error) error {
	for _, pair := range []struct {
		dst, src *core.Tensor
		run      func(dst, src *core.Tensor) error
	}{{dst, src, run}, {dstModel, srcModel, onModel}} {
		to, err := w.view(pair.dst, w.dst)
		if err != nil {
			return err
		}
		defer to.Close()
		from, err := w.view(pair.src, w.src)
		if err != nil {
			return err
		}
		defer from.Close()
		if err := pair.run(to, from); err != nil {
			return err
		}
	}
	return nil
}

// view is the part of t that r takes.
func (w window) view(t *core.Tensor, r ranges) (*core.Tensor, error) {
	v, err := t.Share()
	for i, a := range r {
		v, err = next(v, err, func(v *core.Tensor) (*core.Tensor, error) {
			return v.Slice(i, a.start, a.stop(), a.step)
		})
	}
	if w.reversed {
		v, err = next(v, err, (*core.Tensor).Transpose)
	}
	return v, err
}

// next makes a view of v, which it closes.
func next(v *core.Tensor, err error, view func(*core.Tensor) (*core.Tensor, error)) (*core.Tensor, error) {
	if err != nil {
		return nil, err
	}
	defer v.Close()
	return view(v)
}

func (p *program) openStream() error {
	if len(p.streams) >= mostStreams {
		return nil
	}
	d := p.devices[p.rng.IntN(len(p.devices))]
	p.note("stream %d := on %v", len(p.streams), d.ID())
	s, err := d.NewStream(p.ctx)
	if err == nil {
		p.streams = append(p.streams, s)
	}
	return err
}

func (p *program) closeStream() error {
	if len(p.streams) == 0 {
		return nil
	}
	i := p.rng.IntN(len(p.streams))
	p.note("close stream %d", i)
	err := p.streams[i].Close()
	p.streams = slices.Delete(p.streams, i, i+1)
	return err
}

func (p *program) record() error {
	if len(p.streams) == 0 {
		return p.openStream()
	}
	i := p.rng.IntN(len(p.streams))
	p.note("event %d := of stream %d", len(p.events), i)
	e, err := p.streams[i].Record()
	if err == nil {
		p.events = append(p.events, e)
	}
	return err
}

// waitOnStream makes a stream wait for an event of another, or finds that it cannot.
func (p *program) waitOnStream() error {
	if len(p.streams) == 0 || len(p.events) == 0 {
		return p.record()
	}
	i, j := p.rng.IntN(len(p.streams)), p.rng.IntN(len(p.events))
	p.note("stream %d waits for event %d", i, j)
	if err := p.streams[i].Wait(p.events[j]); !errors.Is(err, core.ErrNotSupported) {
		return err
	}
	return nil
}

// waitOnHost waits for an event, which then is done.
func (p *program) waitOnHost() error {
	if len(p.events) == 0 {
		return p.record()
	}
	i := p.rng.IntN(len(p.events))
	p.note("wait for event %d", i)
	if err := p.events[i].Wait(p.ctx); err != nil {
		return err
	}
	if done, err := p.events[i].Done(); !done || err != nil {
		return fmt.Errorf("event %d was waited for, and Done says %v, %w", i, done, err)
	}
	return nil
}

func (p *program) synchronize() error {
	if len(p.streams) == 0 {
		return p.openStream()
	}
	i := p.rng.IntN(len(p.streams))
	p.note("synchronize stream %d", i)
	return p.streams[i].Synchronize(p.ctx)
}
