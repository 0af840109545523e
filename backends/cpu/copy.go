package cpu

import (
	"context"
	"runtime"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Copy copies between any two tensors in memory that the host can reach, including pinned and managed memory
// and memory of other opened devices. With a nil stream the caller waits and copies.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	if err := d.Begin(ctx, "Copy"); err != nil {
		return err
	}
	if s == nil {
		if done, err := copySmall(dst, src); done {
			return err
		}
	}
	var q *devicebase.Queue
	if s != nil {
		var err error
		if q, err = devicebase.StreamOf[*devicebase.Queue](&d.Device, "Copy", s); err != nil {
			return err
		}
	}
	same, err := backendkit.CheckCopy(dst, src)
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
	// What a stream gets outlives this call, and what Do gets does not, which keeps it on the stack.
	writes, reads := []*core.Tensor{dst}, []*core.Tensor{src}
	if q != nil {
		return stream.Submit(ctx, q, writes, reads, func() error { return q.Enqueue(func() error { return run(work) }) })
	}
	return stream.Do(ctx, writes, reads, func() error { return run(work) })
}

// small is how many bytes copySmall copies at most. Above, the checks take less than a 20th of the copy.
const small = 512 << 10

// copySmall makes a small copy between memory without work, with a part of the checks. It reports false, and has done
// nothing, if the copy needs all of them. The copy is over when copySmall returns, so that no event is recorded, unless
// it failed: whoever reads dst gets the error.
func copySmall(dst, src *core.Tensor) (done bool, err error) {
	to, from, at, of, n := backendkit.SmallCopy(dst, src, small)
	if n == 0 {
		return false, nil
	}
	if err = hostcopy.Small(at, of, n); err != nil {
		failed := stream.NewEvent()
		failed.Complete(err)
		to.Wrote(failed)
	}
	to.Release()
	from.Release()
	return true, err
}

// CopyBatch makes small copies that do not depend on each other in several goroutines.
func (d *device) CopyBatch(ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
	return devicebase.CopyBatch(ctx, &d.Device, s, dst, src, operandOf, func(q *devicebase.Queue, pairs []devicebase.Pair[operand]) error {
		list := make([]*core.Tensor, 2*len(pairs))
		writes, reads := list[:len(pairs)], list[len(pairs):]
		jobs := make([]hostcopy.Job, len(pairs))
		for i, p := range pairs {
			writes[i], reads[i] = p.Dst.tensor, p.Src.tensor
			jobs[i] = hostcopy.Between(p.Dst.tensor, p.Src.tensor, p.Dst.base, p.Src.base)
		}
		work := func() error { return hostcopy.RunAll(jobs, runtime.GOMAXPROCS(0)) }
		if q != nil {
			return stream.Submit(ctx, q, writes, reads, func() error { return q.Enqueue(work) })
		}
		return stream.Do(ctx, writes, reads, work)
	})
}

// operand is a tensor in memory that the host can reach, and the address that its offset counts from.
type operand struct {
	tensor *core.Tensor
	base   uintptr
}

// Host implements [devicebase.Operand]. It returns 0, since backendkit.CheckCopy has compared all addresses of the host.
func (o operand) Host() uintptr { return 0 }

// Ours implements [devicebase.Operand].
func (o operand) Ours() bool { return true }

func operandOf(t *core.Tensor) (operand, error) {
	if id := t.DeviceID(); !id.Type.HostAccessible() {
		return operand{}, core.Errorf(core.ErrDevice, "cpu", "CopyBatch", "the host cannot reach memory on %v: copy through its own device", id)
	}
	b, err := t.Buffer()
	if err != nil {
		return operand{}, err
	}
	return operand{t, b.Memory().Handle}, nil
}

// newJob takes the addresses from the tensors, so that the job does not need them.
func newJob(dst, src *core.Tensor) (hostcopy.Job, error) {
	to, err := dst.Buffer()
	if err != nil {
		return hostcopy.Job{}, err
	}
	from, err := src.Buffer()
	if err != nil {
		return hostcopy.Job{}, err
	}
	return hostcopy.Between(dst, src, to.Memory().Handle, from.Memory().Handle), nil
}

// run copies in as many goroutines as Go runs at a time.
func run(j hostcopy.Job) error { return j.Run(runtime.GOMAXPROCS(0)) }
