package stream

import (
	"context"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// SubmitSame orders a copy of a tensor onto itself, which [core.CheckCopy] reports as the
// same elements. It moves no bytes. Later work on s waits for the last write of the
// elements and for all uses of dst. So does later work on dst, on any stream: if one
// memory was opened twice, dst may not know of that write. With a nil stream the caller
// waits. If nothing is pending, SubmitSame does nothing.
//
// It fails like [Submit]. A write of dst or of src that failed counts as a failed write of
// what is read.
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
	var writes []earlierEvent
	for _, b := range [...]*core.Buffer{from, to} {
		if e := b.Ready(); e != nil {
			if _, err := await(ctx, s, e, false); err != nil {
				return err
			}
			writes = append(writes, earlierEvent{Event: e})
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
		done = chain(done, writes...)
		to.Wrote(done)
		from.Used(done)
	}
	return err
}
