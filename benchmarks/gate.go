package benchmarks

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// gate has several streams begin at the same time: each one waits for an event that the host completes after all work
// was enqueued.
type gate struct {
	timeline *stream.Timeline
	value    uint64        // that the streams wait for
	patience time.Duration // how long no stream may take more work until the gate opens

	onHost bool // a stream could not wait for the host, so that its work was enqueued when the gate opened
	early  bool // the gate opened before all work was enqueued, since a stream took no more
}

// gatePatience is much longer than it takes to enqueue something.
const gatePatience = 50 * time.Millisecond

// gate makes one for the time of the case.
func (e *env) gate() *gate {
	g := &gate{timeline: stream.NewTimeline(), patience: gatePatience}
	e.cleanup(func() { _ = g.timeline.Close() })
	return g
}

// work is what one stream does behind a gate.
type work struct {
	stream  core.Stream
	times   int // that op is done
	op      func() error
	ignored bool // its end is not waited for on the clock: it only keeps the devices busy
}

// run enqueues the work and returns the time from the opening of the gate until the last stream that counts is done. It
// waits for all streams. The gate opens in any case, and so that no call that waits for earlier work, or for
// room in a queue, waits forever: when no stream has taken work for some time.
func (g *gate) run(ctx context.Context, list []work) (time.Duration, error) {
	g.value++
	opened := make(chan struct{})
	event := g.timeline.At(g.value)
	open := sync.OnceValue(func() time.Time {
		start := time.Now()
		_ = g.timeline.Set(g.value) // only a closed timeline fails, and that has ended all waits
		close(opened)
		return start
	})
	defer open()

	held := make([]bool, len(list))
	for i, w := range list {
		err := w.stream.Wait(event)
		switch {
		case err == nil:
			held[i] = true
		case errors.Is(err, core.ErrNotSupported):
			g.onHost = true
		default:
			open()
			return 0, errors.Join(append([]error{err}, synchronize(ctx, list[:i])...)...)
		}
	}

	var taken atomic.Int64 // operations, of all streams
	var enqueuing, running sync.WaitGroup
	ends, errs := make([]time.Time, len(list)), make([]error, len(list))
	for i, w := range list {
		enqueue := func() error {
			for range w.times {
				if err := w.op(); err != nil {
					return err
				}
				taken.Add(1)
			}
			return nil
		}
		if held[i] {
			enqueuing.Add(1)
		}
		running.Go(func() {
			var err error
			if held[i] {
				err = enqueue()
				enqueuing.Done()
			}
			<-opened
			if !held[i] {
				err = enqueue()
			}
			errs[i] = errors.Join(err, w.stream.Synchronize(ctx))
			ends[i] = time.Now()
		})
	}
	g.await(&enqueuing, &taken)
	start := open()
	running.Wait()
	var longest time.Duration
	for i, w := range list {
		if !w.ignored {
			longest = max(longest, ends[i].Sub(start))
		}
	}
	return longest, errors.Join(errs...)
}

// await returns when all work was enqueued, or when no more is taken.
func (g *gate) await(enqueuing *sync.WaitGroup, taken *atomic.Int64) {
	all := make(chan struct{})
	go func() { enqueuing.Wait(); close(all) }() // it ends when the gate is open, at the latest
	tick := time.NewTicker(g.patience)
	defer tick.Stop()
	for last := int64(-1); ; {
		select {
		case <-all:
			return
		case <-tick.C:
			now := taken.Load()
			if now == last {
				g.early = true
				return
			}
			last = now
		}
	}
}

func synchronize(ctx context.Context, list []work) (errs []error) {
	for _, w := range list {
		errs = append(errs, w.stream.Synchronize(ctx))
	}
	return errs
}

// notes say what was not as it should be.
func (g *gate) notes() (notes []string) {
	if g.onHost {
		notes = append(notes, "a stream cannot wait for the host here: its work was enqueued by a goroutine that began with the others")
	}
	if g.early {
		notes = append(notes, "the streams began before all work was enqueued, since a copy waits for the one before it or a queue was full")
	}
	return slices.Clip(notes)
}
