//go:build webgpu && linux && cgo

package webgpu

import (
	"context"
	"errors"
	"sync"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// device is an opened device.
type device struct {
	devicebase.Device
	*blockpool.Pool[class, *buffer]
	native  *wgpu.Device
	limits  gpucopy.Limits
	most    int64 // maxBufferSize
	cpu     bool  // the device is the processor
	picks   bool  // the host makes copies for which the device has only shaders, as far as it can: as a rule where these are slow, on the processor
	streams devicebase.Lending[*stream.Queue]

	pipelines struct {
		sync.Mutex
		made map[gpucopy.Shader]wgpu.Handle
	}
	spares spares

	buffers map[wgpu.Handle]*buffer // of open memory; guarded by Mu
}

// buffer is a WGPUBuffer.
type buffer struct {
	handle wgpu.Handle
	usage  wgpu.Usage
	size   int64 // a multiple of 4, or what an imported buffer has

	// Guarded by device.Mu:
	users int                             // memories that are open
	part  *blockpool.Part[class, *buffer] // of the pool, while memory on it is open; nil if it is not of the pool
	asked int64                           // for how many bytes it was taken from the pool
}

var (
	_ core.Device              = (*device)(nil)
	_ backendkit.CloseNotifier = (*device)(nil)
	_ core.PointerImporter     = (*device)(nil)
	_ core.BatchCopier         = (*device)(nil)
	_ core.PoolController      = (*device)(nil)
	_ core.SemaphoreCreator    = (*device)(nil)
)

// newDevice makes a device that owns native.
func newDevice(native *wgpu.Device, info core.Properties, limits wgpu.Limits, cpu bool) *device {
	d := &device{native: native, cpu: cpu, picks: cpu, limits: limitsOf(limits, cpu), most: limits.BufferSize, buffers: make(map[wgpu.Handle]*buffer)}
	d.pipelines.made = make(map[gpucopy.Shader]wgpu.Handle)
	d.Init(d, info)
	d.Lost = native.Lost
	d.Pool = d.newPool()
	return d
}

func deviceOf(d core.Device) (uintptr, error) {
	own, ok := d.(*device)
	if !ok {
		return 0, core.Errorf(core.ErrDevice, "webgpu", "DeviceOf", "%T is not a device of WebGPU", d)
	}
	own.Mu.Lock()
	defer own.Mu.Unlock()
	if err := own.IsOpen("DeviceOf"); err != nil {
		return 0, err
	}
	return uintptr(own.native.Native()), nil
}

// Alloc takes a WGPUBuffer from the pool, with offset 0. The stream in opts has no influence: memory is freed after the work on it.
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
	d.Mu.Lock()
	defer d.Mu.Unlock()
	m, err := d.alloc(size)
	d.Count(err)
	return m, err
}

// newBuffer makes a buffer of at least size bytes; size is above 0. The caller owns it.
func (d *device) newBuffer(call string, usage wgpu.Usage, size int64) (*buffer, error) {
	if err := d.fits(call, size); err != nil {
		return nil, err
	}
	size = (size + 3) &^ 3
	h, err := d.native.NewBuffer(usage, size)
	if errors.Is(err, core.ErrOutOfMemory) && d.spares.release() {
		h, err = d.native.NewBuffer(usage, size)
	}
	if err != nil {
		return nil, err
	}
	return &buffer{handle: h, usage: usage, size: size}, nil
}

// fits fails if no buffer has so many bytes.
func (d *device) fits(call string, size int64) error {
	if size > d.most&^3 {
		return d.Errorf(core.ErrOutOfMemory, call, "%d bytes were asked for, and a buffer has at most %d (maxBufferSize)", size, d.most)
	}
	return nil
}

// newMemory returns the first size bytes of b as memory of the device, whose owner calls after when it is freed. d.Mu is held.
func (d *device) newMemory(b *buffer, size int64, after func()) core.Memory {
	if b.handle != 0 {
		d.buffers[b.handle] = b
	}
	b.users++
	return d.HandOut(core.Memory{ID: d.ID(), Handle: uintptr(b.handle), Size: size}, func() {
		if b.users--; b.users > 0 {
			return
		}
		delete(d.buffers, b.handle)
		if b.part != nil {
			d.giveBack(b)
		}
	}, after)
}

// release releases a buffer, if there is one.
func release(h wgpu.Handle) {
	if h != 0 {
		wgpu.ReleaseBuffer(h)
	}
}

// ImportPointer takes a WGPUBuffer of the device's WGPUDevice, and adds a reference to it: see [DeviceOf]. The memory is
// its first size bytes. The buffer's usage must have COPY_SRC, COPY_DST and STORAGE. ImportPointer fails with ErrInvalid if the
// buffer is too small, has another usage, is mapped or was destroyed; if size is 0, p is ignored.
func (d *device) ImportPointer(p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	const call = "ImportPointer"
	b := &buffer{handle: wgpu.Handle(p)}
	if size == 0 {
		b.handle = 0
	}
	if err := d.held(call, func() error { return d.takes(call, b, size) }); err != nil {
		return core.Memory{}, err
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return core.Memory{}, err
	}
	free := core.Memory{Owner: owner}.Free
	if size == 0 {
		return d.newMemory(b, 0, free), nil
	}
	if known := d.buffers[b.handle]; known != nil {
		b = known
	}
	wgpu.RetainBuffer(b.handle)
	return d.newMemory(b, size, func() {
		release(b.handle) // the reference of this memory
		free()
	}), nil
}

// takes fails unless size bytes can be imported from b, of which it notes the size and the usage. It may wait for the submission of
// another goroutine, so that d.Mu must not be held.
func (d *device) takes(call string, b *buffer, size int64) error {
	switch {
	case size < 0:
		return d.Errorf(core.ErrInvalid, call, "size is %d bytes", size)
	case size == 0:
		return nil
	case b.handle == 0:
		return d.Errorf(core.ErrInvalid, call, "the WGPUBuffer is nil")
	}
	b.size, b.usage = wgpu.Describe(b.handle)
	if size > b.size {
		return d.Errorf(core.ErrInvalid, call, "size is %d bytes, and the WGPUBuffer has %d", size, b.size)
	}
	if b.usage&wgpu.Memory != wgpu.Memory {
		return d.Errorf(core.ErrInvalid, call, "the usage of the WGPUBuffer is %#x, and dlx needs COPY_SRC, COPY_DST and STORAGE (%#x)", uint64(b.usage), uint64(wgpu.Memory))
	}
	return d.native.Usable(b.handle, b.size)
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
	if err := d.Hold("NewStream"); err != nil {
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
		d.Drain()
		d.spares.release()
		for _, p := range d.pipelines.made {
			wgpu.ReleasePipeline(p)
		}
		d.native.Close()
		return nil
	})
}
