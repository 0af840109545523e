//go:build gl && linux && cgo

package gl

import (
	"context"
	"errors"

	"github.com/dlx-go/dlx/backends/gl/internal/egl"
	"github.com/dlx-go/dlx/backends/internal/relay"
	"github.com/dlx-go/dlx/core"
)

// backend has no state: everything belongs to its opened devices.
type backend struct{}

var _ core.Backend = backend{}

// New returns the backend "gl": one device for each that libEGL lists, in its
// order, which gl:0 is the first of. A device may be opened several times; each
// time has a context of its own on a thread of its own.
func New() core.Backend { return backend{} }

func (backend) Name() string { return core.DeviceGL.BackendName() }

// Probe makes a context on each device until one works, and destroys it.
func (b backend) Probe(ctx context.Context) core.Probe {
	all, err := b.Devices(ctx)
	if err != nil {
		return core.Probe{Reason: err.Error()}
	}
	return core.Probe{Available: true, Version: all[0].Driver, Features: all[0].Features}
}

// Devices makes a context on each device to ask it, and destroys that. Devices that
// give none are left out, unless all do.
func (backend) Devices(ctx context.Context) ([]core.Properties, error) {
	devices, err := egl.Devices()
	if err != nil {
		return nil, err
	}
	var list []core.Properties
	var refused []error
	for i, d := range devices {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t, f, err := start(d)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		t.stop()
		list = append(list, f.properties(core.DeviceID{Type: core.DeviceGL, Index: int32(i)}))
	}
	if len(list) == 0 {
		refused = append(refused, core.Errorf(core.ErrNotSupported, "gl", "Devices", "none of the %d devices of libEGL gives a context", len(devices)))
		return nil, errors.Join(refused...)
	}
	return list, nil
}

// start makes a context on d and asks it what it can do.
func start(d egl.Device) (*thread, facts, error) {
	t, err := startThread(d)
	if err != nil {
		return nil, facts{}, err
	}
	var f facts
	_ = t.run(context.Background(), func() { f, err = readFacts() }) // the thread has just started
	if err != nil {
		t.stop()
		return nil, facts{}, err
	}
	return t, f, nil
}

func (backend) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	devices, err := egl.Devices()
	if err != nil {
		return nil, err
	}
	if err := checkID("Open", id, len(devices)); err != nil {
		return nil, err
	}
	t, f, err := start(devices[id.Index])
	if err != nil {
		return nil, err
	}
	return newDevice(id, f, t.run, t.stop), nil
}

// Wrap returns a device, gl:0 by name, whose context is the caller's: buffers of
// both can be used by both. run runs a function on the thread where that context is
// current and returns when it has run; it may be called from any goroutine, until
// Close of the device has returned. The context stays the caller's and must be
// current, when run runs something, until then: calls fail with core.ErrInvalid where none is.
//
// Wrap waits for run. The device's calls wait for it until their context ends: what run
// has not begun to run by then it never runs, and memory that commands of OpenGL may
// still use stays allocated until they are done. Close, ImportPointer and Close of a
// stream, which have no context, fail with core.ErrInvalid when run has run nothing for 5
// seconds; what was to be closed stays open then, and may be closed again. The context's own thread
// may make the device's calls only if run works there, as that of the package interop/gl
// does; then it may wait for events of the device too, and calls by run what they need
// meanwhile, but not for work of others that waits for the device. Wrap fails with
// core.ErrInvalid if run is nil, and with core.ErrVersion if the context is older than
// OpenGL 4.5 or is OpenGL ES.
func Wrap(run func(f func())) (core.Device, error) {
	if run == nil {
		return nil, core.Errorf(core.ErrInvalid, "gl", "Wrap", "run is nil")
	}
	var f facts
	var err error
	r := relay.New("gl", run)
	if err := r.First(func() { f, err = readFacts() }); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	d := newDevice(core.DeviceID{Type: core.DeviceGL}, f, r.Do, nil)
	d.relay = r
	return d, nil
}

// NewContext makes a context without a window on a device of the backend, and makes
// it current on the calling thread, to which the caller has locked its goroutine.
// destroy ends it, on the same thread, after all that uses it was closed; the
// goroutine then ends without unlocking. It fails as Open does.
func NewContext(id core.DeviceID) (destroy func(), err error) {
	devices, err := egl.Devices()
	if err != nil {
		return nil, err
	}
	if err := checkID("NewContext", id, len(devices)); err != nil {
		return nil, err
	}
	c, err := devices[id.Index].NewContext()
	if err != nil {
		return nil, err
	}
	return c.Close, nil
}

// checkID fails with core.ErrDevice if id is none of so many devices.
func checkID(call string, id core.DeviceID, devices int) error {
	if id.Type != core.DeviceGL || id.Index < 0 || int(id.Index) >= devices {
		return core.Errorf(core.ErrDevice, "gl", call, "there is no device %v: libEGL lists %d, from gl:0 on", id, devices)
	}
	return nil
}
