//go:build webgpu && linux && cgo

package webgpu

import (
	"context"
	"sync"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// device is an opened device.
type device struct {
	devicebase.Device
	native  *wgpu.Device
	limits  gpucopy.Limits
	most    int64 // maxBufferSize
	cpu     bool  // the device is the processor
	streams devicebase.Lending[*stream.Queue]

	pipelines struct {
		sync.Mutex
		made map[gpucopy.Shader]wgpu.Handle
	}
	spares spares

	buffers map[wgpu.Handle]*buffer // of open memory; guarded by Mu
}

// buffer is a WGPUBuffer that the device knows, while memory on it is open.
type buffer struct {
	handle wgpu.Handle
	size   int64 // a multiple of 4, or what an imported buffer has
	users  int   // memories that are open; guarded by device.Mu
}

var (
	_ core.Device              = (*device)(nil)
	_ backendkit.CloseNotifier = (*device)(nil)
	_ core.PointerImporter     = (*device)(nil)
	_ core.BatchCopier         = (*device)(nil)
	_ core.SemaphoreCreator    = (*device)(nil)
)

// newDevice makes a device that owns native.
func newDevice(native *wgpu.Device, info core.Properties, limits wgpu.Limits, cpu bool) *device {
	d := &device{native: native, cpu: cpu, limits: limitsOf(limits, cpu), most: limits.BufferSize, buffers: make(map[wgpu.Handle]*buffer)}
	d.pipelines.made = make(map[gpucopy.Shader]wgpu.Handle)
	d.Init(d, info)
	return d
}

func deviceOf(d core.Device) (uintptr, error) {
	own, ok := d.(*device)
	if !ok {
		return 0, core.Errorf(core.ErrDevice, "webgpu", "DeviceOf", "%T is not a device of WebGPU", d)
	}
	return uintptr(own.native.Native()), nil
}

// Alloc makes a WGPUBuffer for each memory.
func (d *device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	if err := d.Enter(ctx, "Alloc"); err != nil {
		return core.Memory{}, err
	}
	if err := d.CheckOptions(opts, nil); err != nil {
		return core.Memory{}, err
	}
	if opts.HostVisible {
		return core.Memory{}, d.Errorf(core.ErrNotSupported, "Alloc", "the host never sees memory that WebGPU's device may use: leave out AllocOptions.HostVisible, and copy")
	}
	if size < 0 {
		return core.Memory{}, d.Errorf(core.ErrInvalid, "Alloc", "size is %d bytes", size)
	}
	if err := d.Hold("Alloc", func() error { return d.native.Lost("Alloc") }); err != nil {
		return core.Memory{}, err
	}
	defer d.Drop()
	b := &buffer{}
	if size > 0 {
		var err error
		if b, err = d.newBuffer("Alloc", wgpu.Memory, size); err != nil {
			return core.Memory{}, err
		}
	}
	return d.newMemory("Alloc", b, size, nil)
}

// newBuffer makes a buffer of at least size bytes; size is above 0. The caller owns it.
func (d *device) newBuffer(call string, usage wgpu.Usage, size int64) (*buffer, error) {
	if size > d.most&^3 {
		return nil, d.Errorf(core.ErrOutOfMemory, call, "%d bytes were asked for, and a buffer has at most %d (maxBufferSize)", size, d.most)
	}
	size = (size + 3) &^ 3
	h, err := d.native.NewBuffer(usage, size)
	if err != nil {
		return nil, err
	}
	return &buffer{handle: h, size: size}, nil
}

// newMemory returns the first size bytes of b as memory of the device that owns owner and a reference to b. If it fails, it
// releases b, and owner stays the caller's.
func (d *device) newMemory(call string, b *buffer, size int64, owner core.Owner) (core.Memory, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		release(b.handle)
		return core.Memory{}, err
	}
	own := b
	if b.handle != 0 {
		if known := d.buffers[b.handle]; known != nil {
			own = known
		}
		d.buffers[b.handle] = own
		own.users++
	}
	return d.HandOut(core.Memory{ID: d.ID(), Handle: uintptr(b.handle), Size: size}, func() {
		if own.users--; own.users == 0 {
			delete(d.buffers, own.handle)
		}
	}, func() {
		release(own.handle) // the reference of this memory
		core.Memory{Owner: owner}.Free()
	}), nil
}

// release releases a buffer, if there is one.
func release(h wgpu.Handle) {
	if h != 0 {
		wgpu.ReleaseBuffer(h)
	}
}

// ImportPointer takes a WGPUBuffer of the device's WGPUDevice, and adds a reference to it: see [DeviceOf]. The memory is
// its first size bytes. The buffer's usage must have COPY_SRC, COPY_DST and STORAGE. ImportPointer fails with ErrInvalid if the
// buffer is too small or has another usage; if size is 0, p is ignored.
func (d *device) ImportPointer(p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	const call = "ImportPointer"
	if err := d.Hold(call, func() error { return d.native.Lost(call) }); err != nil {
		return core.Memory{}, err
	}
	defer d.Drop()
	switch {
	case size < 0:
		return core.Memory{}, d.Errorf(core.ErrInvalid, call, "size is %d bytes", size)
	case size == 0:
		return d.newMemory(call, &buffer{}, 0, owner)
	case p == 0:
		return core.Memory{}, d.Errorf(core.ErrInvalid, call, "the WGPUBuffer is nil")
	}
	h := wgpu.Handle(p)
	has, usage := wgpu.Describe(h)
	if size > has {
		return core.Memory{}, d.Errorf(core.ErrInvalid, call, "size is %d bytes, and the WGPUBuffer has %d", size, has)
	}
	if usage&wgpu.Memory != wgpu.Memory {
		return core.Memory{}, d.Errorf(core.ErrInvalid, call, "the usage of the WGPUBuffer is %#x, and dlx needs COPY_SRC, COPY_DST and STORAGE (%#x)", uint64(usage), uint64(wgpu.Memory))
	}
	wgpu.RetainBuffer(h)
	return d.newMemory(call, &buffer{handle: h, size: has}, size, owner)
}

// NewSemaphore returns a [stream.Timeline], which cannot be exported. It fails with ErrNotSupported if t is
// not 0, and with ErrClosed.
func (d *device) NewSemaphore(ctx context.Context, t core.HandleType) (core.Semaphore, error) {
	if err := d.Begin(ctx, "NewSemaphore"); err != nil {
		return nil, err
	}
	if t != 0 {
		return nil, d.Errorf(core.ErrNotSupported, "NewSemaphore", "WebGPU cannot export a semaphore as %v", t)
	}
	return stream.NewTimeline(), nil
}

// NewStream returns an ordered queue of the host. All streams share the queue of the device.
func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	if err := d.Hold("NewStream", func() error { return d.native.Lost("NewStream") }); err != nil {
		return nil, err
	}
	d.Drop() // NewQueue waits while the device is being closed, and a call in progress would keep it open
	q, err := d.NewQueue(ctx)
	if err != nil {
		return nil, err
	}
	return q, nil
}

// Close releases everything that belongs to the device: see [devicebase.Device.Shut].
func (d *device) Close() error {
	return d.Shut(context.Background(), func() error {
		for _, q := range d.streams.All(&d.Device) {
			_ = q.Close() // it has no work
		}
		d.spares.release()
		for _, p := range d.pipelines.made {
			wgpu.ReleasePipeline(p)
		}
		d.native.Close()
		return nil
	})
}
