package stream

import (
	"context"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// SubmitSame is what a copy comes to where [core.CheckCopy] says that dst and src are
// the same elements: no bytes move, but later work on s comes behind the last write
// of the elements and all uses of dst, and so does whoever waits for dst, which may
// not know of that write, as where one memory was opened twice. With a nil stream the
// caller waits. Where nothing is pending, nothing is done.
//
// It fails like [Submit]; a write of either tensor that is known to have failed is
// one of what is read.
func SubmitSame(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	to, err := hold("SubmitSame", dst)
	if err != nil {
		return err
	}
	defer to.Release()
	from, err := hold("SubmitSame", src)
	if err != nil {
		return err
	}
	defer from.Release()

	if q, ok := s.(interface{ submission() *sync.Mutex }); ok {
		mu := q.submission()
		mu.Lock()
		defer mu.Unlock()
	}
	var writes []part
	for _, b := range [...]*core.Buffer{from, to} {
		if e := b.Ready(); e != nil {
			if _, err := await(ctx, s, e, false); err != nil {
				return err
			}
			writes = append(writes, part{Event: e})
		}
	}
	for _, e := range to.Pending() {
		if _, err := await(ctx, s, e, true); err != nil {
			return err
		}
	}
	if s == nil || len(writes) == 0 || to.Origin() == from.Origin() {
		return nil // dst knows of what is pending, if anything is
	}
	done, err := enqueueAndRecord(ctx, s, func() error { return nil })
	if done != nil {
		// Not every stream passes on the error of what it waited for.
		done = tellingOf(done, writes...)
		to.Wrote(done)
		from.Used(done)
	}
	return err
}
