// Package minimalbackend is a complete backend that does no more than it must. Its memory is host memory
// under another device type, and its streams are queues of the host. backends/README.md explains it.
package minimalbackend

import (
	"context"
	"errors"
	"sync"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

const name = "ext_dev" // the name of core.DeviceExt

var id = core.DeviceID{Type: core.DeviceExt}

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
		return nil, core.Errorf(core.ErrDevice, name, "Open", "there is no device %v: the only one is %v", wanted, id)
	}
	host, err := cpu.New().Open(ctx, core.CPU)
	if err != nil {
		return nil, err
	}
	d := &device{host: host, open: backendkit.OpenSet{Backend: name}}
	d.own = &queue{Queue: stream.NewQueue(d)}
	return d, nil
}

var properties = core.Properties{
	ID: id, Name: "a minimal device", Alignment: 256,
	Capabilities: core.CapAsync | core.CapStreamWait | core.CapSubByte,
}

// device is the opened device. Its driver is a device of the CPU backend, which allocates and copies.
type device struct {
	backendkit.CloseHooks
	host core.Device
	own  *queue             // for copies without a stream
	open backendkit.OpenSet // what Close waits for

	mu     sync.Mutex
	closed bool
}

func (d *device) ID() core.DeviceID { return id }

func (d *device) Properties() core.Properties { return properties }

// begin is called first by every call that takes a context. It fails if the device was closed or the context
// has ended. Otherwise it counts what the call opens or does, so that Close fails until the result is closed.
func (d *device) begin(ctx context.Context, call, what string) (backendkit.OpenItem, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return backendkit.OpenItem{}, core.Errorf(core.ErrClosed, name, call, "the device was closed")
	}
	if err := ctx.Err(); err != nil {
		return backendkit.OpenItem{}, err
	}
	return d.open.Add(what), nil
}

// Alloc allocates memory from the driver. The memory's owner gives it back.
func (d *device) Alloc(ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
	if o.Type != 0 && o.Type != id.Type || o.Export != 0 || o.HostVisible {
		return core.Memory{}, core.Errorf(core.ErrNotSupported, name, "Alloc", "the device has plain memory only")
	}
	item, err := d.begin(ctx, "Alloc", "allocation")
	if err != nil {
		return core.Memory{}, err
	}
	m, err := d.host.Alloc(ctx, size, core.AllocOptions{})
	if err != nil {
		item.Close()
		return core.Memory{}, err
	}
	free := core.FreeFunc(func() { m.Free(); item.Close() })
	return core.Memory{ID: id, Device: d, Handle: m.Handle, Size: size, Owner: free}, nil
}

// queue is a stream: a queue of the host, which the device counts until it is closed.
type queue struct {
	*stream.Queue
	item backendkit.OpenItem
}

func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	item, err := d.begin(ctx, "NewStream", "stream")
	if err != nil {
		return nil, err
	}
	return &queue{stream.NewQueue(d), item}, nil
}

func (q *queue) Close() error {
	defer q.item.Close()
	return q.Queue.Close()
}

// Copy enqueues the copy on the stream. If s is nil, Copy waits for the copy.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	item, err := d.begin(ctx, "Copy", "copy")
	if err != nil {
		return err
	}
	defer item.Close()
	q, ok := s.(*queue)
	if s != nil && (!ok || q.Device() != core.Device(d)) {
		return core.Errorf(core.ErrDevice, name, "Copy", "the stream is not one of this device: make one by its NewStream")
	}
	same, err := backendkit.CheckCopy(dst, src)
	switch {
	case err != nil:
		return err
	case same:
		return stream.SubmitSame(ctx, s, dst, src)
	}
	submit := stream.Submit
	if s == nil {
		q, submit = d.own, stream.SubmitAndWait
	}
	return submit(ctx, q, []*core.Tensor{dst}, []*core.Tensor{src}, func() error { return d.enqueue(q, dst, src) })
}

// enqueue enqueues work by which the driver copies src to dst. For the driver, both are host memory. The work
// does not use the tensors, because the caller may close them before it runs. stream.Submit keeps their memory.
func (d *device) enqueue(q *queue, dst, src *core.Tensor) error {
	var memory [2]core.Memory
	var spec [2]core.Spec
	for i, t := range []*core.Tensor{dst, src} {
		b, err := t.Buffer()
		if err != nil {
			return err
		}
		m := b.Memory()
		if m.ID != id && !m.ID.Type.HostAccessible() {
			return core.Errorf(core.ErrDevice, name, "Copy", "the device cannot reach memory on %v", m.ID)
		}
		spec[i] = core.Spec{DType: t.DType(), Shape: t.Shape(), Strides: t.Layout().Strides(), Offset: t.Offset() - m.Offset, Flags: t.Flags()}
		memory[i] = core.Memory{ID: core.CPU, Handle: m.Handle, Offset: m.Offset, Size: m.Size}
	}
	return q.Enqueue(func() error {
		to, err := core.Wrap(memory[0], spec[0])
		if err != nil {
			return err
		}
		defer to.Close()
		from, err := core.Wrap(memory[1], spec[1])
		if err != nil {
			return err
		}
		defer from.Close()
		return d.host.Copy(context.Background(), nil, to, from)
	})
}

// Close fails while something is open. Otherwise it closes the driver.
func (d *device) Close() error {
	d.RunCloseHooks()
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.open.Err(name, id)
	if d.closed || err != nil { // nothing is open on a closed device
		return err
	}
	d.closed = true
	return errors.Join(d.own.Queue.Close(), d.host.Close())
}
