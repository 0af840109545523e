package cpu

import (
	"context"
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/copykernel"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Copy copies between any two tensors in memory that the host can reach, pinned
// and managed memory and that of other opened devices included. A nil stream
// makes the caller wait and copy.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q, err := d.queueOf(s)
	if err != nil {
		return err
	}
	same, err := core.CheckCopy(dst, src)
	if err != nil {
		return err
	}
	for _, id := range [...]core.DeviceID{dst.ID(), src.ID()} {
		if !id.Type.HostAccessible() {
			return core.Errorf(core.ErrDevice, "cpu", "Copy", "the host cannot reach memory on %v: copy through its own device", id)
		}
	}
	switch {
	case same:
		return stream.SubmitSame(ctx, s, dst, src)
	case dst.NumElements() == 0:
		return nil
	}
	work, err := newJob(dst, src)
	if err != nil {
		return err
	}
	if q == nil {
		return copyHere(ctx, dst, src, work)
	}
	return stream.Submit(ctx, q, []*core.Tensor{dst}, []*core.Tensor{src}, func() error {
		return q.Enqueue(func() error { return run(work) })
	})
}

// queueOf is s as a stream of this device, which is open; nil if s is nil.
func (d *device) queueOf(s core.Stream) (*queue, error) {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return nil, closedDevice("Copy")
	}
	if s == nil {
		return nil, nil
	}
	q, ok := s.(*queue)
	if !ok || q.device != d {
		return nil, core.Errorf(core.ErrDevice, "cpu", "Copy", "the stream belongs to another device")
	}
	return q, nil
}

// copyHere copies in the calling goroutine once all work before it is done.
func copyHere(ctx context.Context, dst, src *core.Tensor, work copykernel.Job) error {
	to, err := hold(dst)
	if err != nil {
		return err
	}
	defer to.Release()
	from, err := hold(src)
	if err != nil {
		return err
	}
	defer from.Release()

	if e := from.Ready(); e != nil {
		if err := e.Wait(ctx); err != nil {
			return err
		}
	}
	for _, e := range to.Pending() {
		// What is overwritten may have failed; only ctx can keep the copy from its turn.
		if err := e.Wait(ctx); err != nil {
			if done, _ := e.Done(); !done {
				return err
			}
		}
	}
	done := stream.NewEvent()
	to.Wrote(done)
	from.Used(done)
	err = run(work)
	done.Complete(err)
	return err
}

// hold takes a reference to the memory of t, which the caller releases.
func hold(t *core.Tensor) (*core.Buffer, error) {
	b, err := t.Buffer()
	if err != nil {
		return nil, err
	}
	return b, b.Retain()
}

// newJob takes the addresses, so that the job does not need the tensors.
func newJob(dst, src *core.Tensor) (copykernel.Job, error) {
	to, err := dst.Buffer()
	if err != nil {
		return copykernel.Job{}, err
	}
	from, err := src.Buffer()
	if err != nil {
		return copykernel.Job{}, err
	}
	return copykernel.Between(dst, src, to.Memory().Handle, from.Memory().Handle), nil
}

// run copies in as many goroutines as Go runs at a time.
func run(j copykernel.Job) error { return j.Run(runtime.GOMAXPROCS(0)) }
