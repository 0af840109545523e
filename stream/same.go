package stream

import (
	"context"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// SubmitSame orders a copy of a tensor onto itself. CheckCopy of package backendkit reports such a copy by
// the result same. SubmitSame moves no bytes. It makes later work on s, and later work on
// dst on any stream, wait for the last write of src and of dst and for all work on dst.
// This matters if the same memory was opened twice, because a write that is recorded on src
// may then not be recorded on dst. If s is nil, the caller waits. If no work is unfinished,
// SubmitSame does nothing.
//
// SubmitSame fails as [Submit] does. It returns the error of a failed write of src, and
// that of a failed write of dst.
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
			if _, err := await(ctx, s, b, e, false); err != nil {
				return err
			}
			writes = append(writes, earlierEvent{Event: e})
		}
	}
	for _, e := range to.Pending() {
		if _, err := await(ctx, s, to, e, true); err != nil {
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
