package cpu

import (
	"context"
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/copykernel"
	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Copy copies between any two tensors in memory that the host can reach, including pinned and managed memory
// and memory of other opened devices. With a nil stream the caller waits and copies.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	if err := d.Begin(ctx, "Copy"); err != nil {
		return err
	}
	var q *shell.Queue
	if s != nil {
		var err error
		if q, err = shell.StreamOf[*shell.Queue](&d.Device, "Copy", s); err != nil {
			return err
		}
	}
	same, err := core.CheckCopy(dst, src)
	if err != nil {
		return err
	}
	for _, id := range [...]core.DeviceID{dst.DeviceID(), src.DeviceID()} {
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
	writes, reads := []*core.Tensor{dst}, []*core.Tensor{src}
	if q != nil {
		return stream.Submit(ctx, q, writes, reads, func() error {
			return q.Enqueue(func() error { return run(work) })
		})
	}
	uses, err := stream.Acquire(ctx, writes, reads)
	if err != nil {
		return err
	}
	defer uses.Release()
	done := stream.NewEvent()
	uses.Note(done)
	err = run(work)
	done.Complete(err)
	return err
}

// newJob takes the addresses from the tensors, so that the job does not need them.
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
