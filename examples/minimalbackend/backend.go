// Package minimalbackend is a complete backend that does no more than it must. Its memory is host memory
// under another device type, and its streams are queues of the host. backends/README.md explains it.
package minimalbackend

import (
	"context"
	"errors"
	"sync"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

const name = "ext_dev" // the name of core.DeviceExt

var id = core.DeviceID{Type: core.DeviceExt}

func errorf(sentinel error, call, format string, args ...any) error {
	return core.Errorf(sentinel, name, call, format, args...)
}

type backend struct{}

// New returns the backend, which has one device, ext_dev:0.
func New() core.Backend { return backend{} }

func (backend) Name() string { return name }

func (backend) Probe(context.Context) core.Probe { return core.Probe{Available: true, Version: "1"} }

func (backend) Devices(context.Context) ([]core.Properties, error) {
	return []core.Properties{properties}, nil
}

func (backend) Open(ctx context.Context, wanted core.DeviceID) (core.Device, error) {
	if wanted != id {
		return nil, errorf(core.ErrDevice, "Open", "there is no device %v: the only one is %v", wanted, id)
	}
	host, err := cpu.New().Open(ctx, core.CPU)
	if err != nil {
		return nil, err
	}
	d := &device{host: host}
	d.own = &queue{Queue: stream.NewQueue(d)}
	return d, nil
}

var properties = core.Properties{
	ID: id, Name: "a minimal device", Alignment: 256,
	Capabilities: core.CapAsync | core.CapStreamWait | core.CapSubByte,
}

// device is the opened device. Its driver is a device of the CPU backend, which allocates and copies.
type device struct {
	core.CloseHooks
	host core.Device
	own  *queue       // for copies without a stream
	open core.OpenSet // what Close waits for

	mu     sync.Mutex
	closed bool
}

func (d *device) ID() core.DeviceID { return id }

func (d *device) Properties() core.Properties { return properties }

// enter is called first by every call that takes a context. It fails if the device was closed or the context
// has ended.
func (d *device) enter(ctx context.Context, call string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errorf(core.ErrClosed, call, "the device was closed")
	}
	return ctx.Err()
}

// Alloc allocates memory from the driver. The memory's owner gives it back.
func (d *device) Alloc(ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
	if err := d.enter(ctx, "Alloc"); err != nil {
		return core.Memory{}, err
	}
	if o.Type != 0 && o.Type != id.Type || o.Export != 0 || o.HostVisible {
		return core.Memory{}, errorf(core.ErrNotSupported, "Alloc", "the device has plain memory only")
	}
	m, err := d.host.Alloc(ctx, size, core.AllocOptions{})
	if err != nil {
		return core.Memory{}, err
	}
	item := d.open.Add("memory")
	free := core.FreeFunc(func() { m.Free(); item.Close() })
	return core.Memory{ID: id, Device: d, Handle: m.Handle, Size: size, Owner: free}, nil
}

// queue is a stream: a queue of the host, which the device counts until it is closed.
type queue struct {
	*stream.Queue
	item core.OpenItem
}

func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	if err := d.enter(ctx, "NewStream"); err != nil {
		return nil, err
	}
	return &queue{stream.NewQueue(d), d.open.Add("stream")}, nil
}

func (q *queue) Close() error {
	defer q.item.Close()
	return q.Queue.Close()
}

// Copy enqueues the copy on the stream, or waits for it if s is nil.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	if err := d.enter(ctx, "Copy"); err != nil {
		return err
	}
	q, ok := s.(*queue)
	if s != nil && (!ok || q.Device() != core.Device(d)) {
		return errorf(core.ErrDevice, "Copy", "the stream belongs to another device")
	}
	same, err := core.CheckCopy(dst, src)
	switch {
	case err != nil:
		return err
	case same:
		return stream.SubmitSame(ctx, s, dst, src)
	}
	work, err := d.job(dst, src)
	if err != nil {
		return err
	}
	submit := stream.Submit
	if s == nil {
		q, submit = d.own, stream.SubmitAndWait
	}
	return submit(ctx, q, []*core.Tensor{dst}, []*core.Tensor{src}, func() error { return q.Enqueue(work) })
}

// job returns work by which the driver copies src to dst, as host memory. The work needs neither tensor,
// since both may be closed before it runs: stream.Submit keeps their memory.
func (d *device) job(dst, src *core.Tensor) (func() error, error) {
	to, err := d.onHost(dst)
	if err != nil {
		return nil, err
	}
	from, err := d.onHost(src)
	if err != nil {
		return nil, err
	}
	return func() error {
		x, err := to()
		if err != nil {
			return err
		}
		defer x.Close()
		y, err := from()
		if err != nil {
			return err
		}
		defer y.Close()
		return d.host.Copy(context.Background(), nil, x, y)
	}, nil
}

// onHost returns a function that makes a host tensor on the memory of t.
func (d *device) onHost(t *core.Tensor) (func() (*core.Tensor, error), error) {
	b, err := t.Buffer()
	if err != nil {
		return nil, err
	}
	m := b.Memory()
	if m.ID != id && !m.ID.Type.HostAccessible() {
		return nil, errorf(core.ErrDevice, "Copy", "the device cannot reach memory on %v", m.ID)
	}
	spec := core.Spec{DType: t.DType(), Shape: t.Shape(), Strides: t.Layout().Strides(), Offset: t.Offset() - m.Offset, Flags: t.Flags()}
	m.ID, m.Device, m.Owner = core.CPU, nil, nil
	return func() (*core.Tensor, error) { return core.Wrap(m, spec) }, nil
}

// Close fails while something is open. Otherwise it closes the driver.
func (d *device) Close() error {
	d.RunCloseHooks()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	if err := d.open.Err(name, id); err != nil {
		return err
	}
	d.closed = true
	return errors.Join(d.own.Queue.Close(), d.host.Close())
}
