//go:build gl && linux && cgo

package gl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/relay"
	"github.com/dlx-go/dlx/core"
)

// device is an opened device: an OpenGL context.
type device struct {
	devicebase.Device
	info    contextInfo
	run     executor
	relay   *relay.Relay // used by run, for a context of the caller
	stop    func()       // destroys the context; nil for a context of the caller
	closing sync.Mutex   // held while the context is released; whoever locks it without Mu must not wait for Mu then

	driver   driver
	lost     atomic.Bool
	programs programs

	issued, finished atomic.Uint64 // commands: see finish

	// guarded by Mu
	buffers                         map[uint32]*buffer
	kept                            map[uint32]bool // the buffers that are in the pool
	spares                          []*buffer       // mapped, for the next copy
	garbage                         []func()        // functions that delete objects, for the next call on the context's thread
	*blockpool.Pool[class, *buffer]                 // not used in a context of the caller
}

// driver holds calls whose results tests can replace.
type driver struct {
	getError, getGraphicsResetStatus func() uint32
	fenceSync                        func(condition, flags uint32) uintptr
	clientWaitSync                   func(fence uintptr, flags uint32, timeout uint64) uint32
}

var (
	_ core.Device              = (*device)(nil)
	_ backendkit.CloseNotifier = (*device)(nil)
	_ core.PoolController      = (*device)(nil)
	_ core.BatchCopier         = (*device)(nil)
	_ core.PointerImporter     = (*device)(nil)
	_ core.HostViewer          = (*device)(nil)
	_ core.MemoryImporter      = (*device)(nil)
	_ core.SemaphoreImporter   = (*device)(nil)
)

// newDevice makes a device of an OpenGL context.
func newDevice(id core.DeviceID, f contextInfo, run executor, stop func()) *device {
	d := &device{
		info:     f,
		run:      run,
		stop:     stop,
		driver:   driver{gl.GetError, gl.GetGraphicsResetStatus, gl.FenceSync, gl.ClientWaitSync},
		programs: make(programs),
		buffers:  make(map[uint32]*buffer),
		kept:     make(map[uint32]bool),
	}
	p := f.properties(id)
	if stop == nil {
		p.Capabilities &^= core.CapPool
	}
	d.Init(d, p)
	d.Pool = d.newPool()
	return d
}

// errNotCurrent is the error of a call that runs where the context is not current. Work of the context
// continues, and the context may be current at the next call.
var errNotCurrent = fmt.Errorf("%w: no OpenGL context is current on the thread that run reaches", core.ErrInvalid)

// usable fails if the context was lost.
func (d *device) usable(call string) error {
	if d.lost.Load() {
		return core.Errorf(core.ErrDeviceLost, "gl", call, "the context was lost: close the device and everything that was opened on it")
	}
	return nil
}

// do runs f, which calls OpenGL, on the context's thread, and returns the error of the context after it. If
// ctx ends before f starts, do returns ctx's error, and f never runs.
func (d *device) do(ctx context.Context, call string, f func()) error {
	if err := d.usable(call); err != nil {
		return err
	}
	var failed error
	err := d.run(ctx, func() {
		if d.stop == nil {
			if gl.GetString(gl.VERSION) == nil {
				failed = &core.Error{Backend: "gl", Call: call, Err: errNotCurrent}
				return
			}
			drainErrors() // errors of the caller's own calls are not errors of f
		}
		d.sweep()
		f()
		if code := d.driver.getError(); code != gl.NO_ERROR {
			if status := d.resetStatus(); status != gl.NO_ERROR {
				code = status
			}
			failed = d.failed(call, code)
		}
	})
	if errors.Is(err, errEnded) {
		return d.Errorf(core.ErrClosed, call, "the device was closed")
	}
	return cmp.Or(err, failed)
}

// doSoon is do for calls that have no ctx.
func (d *device) doSoon(call string, f func()) error {
	ctx, stop := d.patient()
	defer stop()
	err := d.do(ctx, call, f)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return d.relay.Untaken(call)
	}
	return err
}

// patient returns a ctx that ends if the thread of a wrapped context takes no calls: see
// [relay.Relay.Patient]. A thread of the device itself always takes calls.
func (d *device) patient() (ctx context.Context, stop func()) {
	if d.relay == nil {
		return context.Background(), func() {}
	}
	return d.relay.Patient()
}

// drainErrors clears the errors of the context that is current on this thread. A lost context may return
// errors for ever.
func drainErrors() {
	for range 16 {
		if gl.GetError() == gl.NO_ERROR {
			return
		}
	}
}

// failed makes an error of a code, and records if the code means that the context is lost.
func (d *device) failed(call string, code uint32) error {
	err := failure(call, code)
	if errors.Is(err, core.ErrDeviceLost) {
		d.lost.Store(true)
	}
	return err
}

// resetStatus returns, on the context's thread, whether and why the context was lost.
func (d *device) resetStatus() uint32 {
	if !d.info.robust {
		return gl.NO_ERROR
	}
	return d.driver.getGraphicsResetStatus()
}

// sweep deletes, on the context's thread, what was freed.
func (d *device) sweep() {
	d.Mu.Lock()
	garbage := d.garbage
	d.garbage = nil
	d.Mu.Unlock()
	for _, destroy := range garbage {
		destroy()
	}
}

// discard calls destroy on the context's thread: at once if the thread is the device's own, else at the next
// call, since the caller's thread may be the one that frees. It does not wait for a thread of the caller.
func (d *device) discard(destroy func()) {
	d.Mu.Lock()
	d.garbage = append(d.garbage, destroy)
	d.Mu.Unlock()
	if d.stop != nil {
		_ = d.run(context.Background(), d.sweep) // if the context is destroyed, its objects are too
	}
}

// Close waits for work on memory that was released already, since no caller can close that memory. See
// [reaper.Gate], and [Wrap] for a context of the caller.
func (d *device) Close() error {
	ctx, stop := d.patient()
	defer stop()
	for {
		err := d.Shut(ctx, func() error { return d.release(ctx) })
		if errors.Is(err, errEnded) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return d.relay.Untaken("Close") // the thread takes no calls
		}
		if err != nil {
			return err
		}
		d.closing.Lock() // another Close may be releasing the context, and fail
		closed := d.Closed.Load()
		d.closing.Unlock()
		if closed {
			return nil
		}
	}
}

// release deletes the objects of the context, and destroys the context if it is the device's own. Mu is held. If
// release fails, the device is open again.
func (d *device) release(ctx context.Context) error {
	d.closing.Lock()
	defer d.closing.Unlock()
	for _, b := range d.spares {
		d.garbage = append(d.garbage, b.destroy)
	}
	d.spares = nil
	d.Drain()
	d.Mu.Unlock() // the context's thread locks it
	err := d.run(ctx, func() {
		d.sweep()
		d.programs.destroy()
	})
	if d.stop != nil {
		d.stop()
	}
	d.Mu.Lock()
	d.Closed.Store(err == nil)
	return err
}
