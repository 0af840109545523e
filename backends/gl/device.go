//go:build gl && linux && cgo

package gl

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-gl/gl/v2.1/gl"

	"github.com/dlx-go/dlx/backends/internal/reaper"
	"github.com/dlx-go/dlx/core"
)

var liveDevices = core.NewLiveCounter("gl.Device")

// device is a context.
type device struct {
	properties core.Properties
	facts      facts
	run        executor
	stop       func()      // ends the context; nil for one that is the caller's
	outer      core.Device // what callers know: this, or what is around it
	core.CloseHooks
	reaper reaper.Reaper

	driver   driver
	lost     atomic.Bool
	programs programs

	issued, finished atomic.Uint64 // commands: see finish

	mu       sync.Mutex
	closed   bool
	streams  int // open
	memories int // allocations, imports and semaphores that were not freed
	buffers  map[uint32]*buffer
	spares   []*buffer // mapped, for the next copy
	garbage  []buffer  // to be deleted by the next call on the context's thread
}

// driver are the calls of which tests want to decide what they return.
type driver struct {
	getError, getGraphicsResetStatus func() uint32
}

var (
	_ core.Device          = (*device)(nil)
	_ core.CloseNotifier   = (*device)(nil)
	_ core.PointerImporter = (*device)(nil)
	_ core.HostViewer      = (*device)(nil)
)

// newDevice makes a device of a context; callers are given its outer, which has the
// interfaces that the context allows.
func newDevice(id core.DeviceID, f facts, run executor, stop func()) *device {
	d := &device{
		properties: f.properties(id),
		facts:      f,
		run:        run,
		stop:       stop,
		driver:     driver{gl.GetError, gl.GetGraphicsResetStatus},
		programs:   make(programs),
		buffers:    make(map[uint32]*buffer),
	}
	d.outer = d
	if d.facts.importsMemory() {
		d.outer = importingDevice{d}
	}
	if d.facts.importsSemaphores() {
		d.outer = sharingDevice{importingDevice{d}}
	}
	liveDevices.Add(1)
	return d
}

func (d *device) ID() core.DeviceID { return d.properties.ID }

func (d *device) Properties() core.Properties {
	p := d.properties
	p.Features = slices.Clone(p.Features)
	return p
}

// do runs f, which calls OpenGL, on the context's thread, and returns the error
// that the context then has.
func (d *device) do(call string, f func()) error {
	if d.lost.Load() {
		return core.Errorf(core.ErrDeviceLost, "gl", call, "the context was lost: close the device and all that was opened on it")
	}
	var err error
	if !d.run(func() {
		d.sweep()
		if d.stop == nil { // what the caller's own calls left is not f's
			drainErrors()
		}
		f()
		if code := d.driver.getError(); code != gl.NO_ERROR {
			if status := d.resetStatus(); status != gl.NO_ERROR {
				code = status
			}
			err = d.failed(call, code)
		}
	}) {
		return closedDevice(call)
	}
	return err
}

// drainErrors takes what errors the context on this thread has. One that is lost
// may return them for ever.
func drainErrors() {
	for range 16 {
		if gl.GetError() == gl.NO_ERROR {
			return
		}
	}
}

// failed makes an error of a code, and remembers if that says that the context is lost.
func (d *device) failed(call string, code uint32) error {
	err := failure(call, code)
	if errors.Is(err, core.ErrDeviceLost) {
		d.lost.Store(true)
	}
	return err
}

// resetStatus tells on the context's thread whether, and why, the context was lost.
func (d *device) resetStatus() uint32 {
	if !d.facts.robust {
		return gl.NO_ERROR
	}
	return d.driver.getGraphicsResetStatus()
}

// sweep deletes on the context's thread what was freed.
func (d *device) sweep() {
	d.mu.Lock()
	garbage := d.garbage
	d.garbage = nil
	d.mu.Unlock()
	for _, b := range garbage {
		b.destroy()
	}
}

// Close waits for work on memory that was released already, since nobody else
// could: that memory is not open any more.
func (d *device) Close() error {
	d.RunCloseHooks()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reaper.WaitWhile(&d.mu, func(left int) bool { return d.streams == 0 && d.memories <= left })
	if d.closed {
		return nil
	}
	if d.streams > 0 || d.memories > 0 {
		return core.Errorf(core.ErrInvalid, "gl", "Close", "%d streams and %d allocations, imports or semaphores are open: close them first", d.streams, d.memories)
	}
	d.closed = true
	for _, b := range d.spares {
		d.garbage = append(d.garbage, *b)
	}
	d.mu.Unlock() // the context's thread takes it
	d.run(func() {
		d.sweep()
		d.programs.destroy()
	})
	if d.stop != nil {
		d.stop()
	}
	d.mu.Lock()
	liveDevices.Add(-1)
	return nil
}

// checkOpen fails if the device was closed.
func (d *device) checkOpen(call string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return closedDevice(call)
	}
	return nil
}

// begin is what calls that get something new have in common.
func (d *device) begin(ctx context.Context, call string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.checkOpen(call)
}
