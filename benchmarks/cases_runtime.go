package benchmarks

import (
	"context"
	"fmt"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// runtimeCases measure what stands around a transfer: views, memory, order.
func runtimeCases() []Case {
	cases := []Case{{
		Name:        "core/slice",
		Description: "a view of every second row of a 3x4 tensor, and its close",
		setup: func(e *env) (trial, error) {
			t, err := e.keep(core.FromSlice(make([]float32, 12), 3, 4))
			if err != nil {
				return trial{}, err
			}
			return trial{own: repeat(func() error {
				v, err := t.Slice(0, 0, 3, 2)
				if err != nil {
					return err
				}
				return v.Close()
			})}, nil
		},
	}}
	for _, size := range []int64{256, 4 << 10, 64 << 10, 1 << 20, 64 << 20} {
		cases = append(cases, Case{
			Name:        "memory/alloc/" + binarySize(size),
			Description: "memory of the host's pool, allocated and freed, not touched",
			setup: func(e *env) (trial, error) {
				d, err := e.device()
				if err != nil {
					return trial{}, err
				}
				return trial{own: repeat(func() error {
					m, err := d.Alloc(e.ctx, e.bytes(size), core.AllocOptions{})
					if err == nil {
						m.Free()
					}
					return err
				})}, nil
			},
		})
	}
	return append(cases, Case{
		Name:        "stream/record-wait",
		Description: "work on a host queue, an event after it, waited for by the host",
		setup: func(e *env) (trial, error) {
			q := e.queue()
			return trial{own: repeat(func() error { return q.finish(e.ctx, q.enqueue()) })}, nil
		},
	}, Case{
		Name:        "stream/cross-wait",
		Description: "the same, with a second queue between that waits for the first one's event",
		setup: func(e *env) (trial, error) {
			first, second := e.queue(), e.queue()
			return trial{own: repeat(func() error {
				if err := first.enqueue(); err != nil {
					return err
				}
				done, err := first.Record()
				if err == nil {
					err = second.Wait(done)
				}
				return second.finish(e.ctx, err)
			})}, nil
		},
	}, Case{
		Name:        "stream/timeline",
		Description: "a timeline's next value, signalled by a queue and waited for by the host",
		setup: func(e *env) (trial, error) {
			q, timeline := e.queue(), stream.NewTimeline()
			e.cleanup(func() { _ = timeline.Close() })
			value := uint64(0)
			return trial{own: repeat(func() error {
				value++
				if err := timeline.Signal(q, value); err != nil {
					return err
				}
				return timeline.Wait(e.ctx, value)
			})}, nil
		},
	})
}

// queue is a host queue with work that does nothing.
type queue struct{ *stream.Queue }

// queue opens one for the time of the case.
func (e *env) queue() queue {
	q := queue{stream.NewQueue(nil)}
	e.cleanup(func() { _ = q.Close() })
	return q
}

func (q queue) enqueue() error { return q.Enqueue(func() error { return nil }) }

// finish records an event and waits for it, unless err came before.
func (q queue) finish(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	done, err := q.Record()
	if err != nil {
		return err
	}
	return done.Wait(ctx)
}

// binarySize gives "256B", "4KiB", "64MiB": the largest unit that divides n.
func binarySize(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB"}
	for n > 0 && n%1024 == 0 && len(units) > 1 {
		n, units = n/1024, units[1:]
	}
	return fmt.Sprintf("%d%s", n, units[0])
}
