//go:build gl && linux && cgo

package gl

import (
	"context"
	"errors"

	"github.com/dlx-go/dlx/backends/gl/internal/egl"
	"github.com/dlx-go/dlx/backends/internal/relay"
	"github.com/dlx-go/dlx/core"
)

// backend has no state: everything belongs to opened devices.
type backend struct{}

var _ core.Backend = backend{}

func newBackend() core.Backend { return backend{} }

func (backend) Name() string { return core.DeviceGL.BackendName() }

// Probe makes an OpenGL context on each device until one works, and destroys it.
func (b backend) Probe(ctx context.Context) core.Probe {
	all, err := b.Devices(ctx)
	if err != nil {
		return core.Probe{Reason: err.Error()}
	}
	return core.Probe{Available: true, Version: all[0].Driver, Features: all[0].Features}
}

// Devices makes an OpenGL context on each device to query it, and destroys the context. It omits devices that
// make no context, and fails if all of them do not.
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
		refused = append(refused, core.Errorf(core.ErrNotSupported, "gl", "Devices", "none of the %d devices of libEGL makes a context", len(devices)))
		return nil, errors.Join(refused...)
	}
	return list, nil
}

// start makes a context on d and queries it.
func start(d egl.Device) (*thread, contextInfo, error) {
	t, err := startThread(d)
	if err != nil {
		return nil, contextInfo{}, err
	}
	var f contextInfo
	_ = t.run(context.Background(), func() { f, err = readContextInfo() }) // the thread has just started
	if err != nil {
		t.stop()
		return nil, contextInfo{}, err
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

func wrap(run func(f func())) (core.Device, error) {
	if run == nil {
		return nil, core.Errorf(core.ErrInvalid, "gl", "Wrap", "run is nil")
	}
	var f contextInfo
	var err error
	r := relay.New("gl", run)
	if err := r.First(func() { f, err = readContextInfo() }); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	d := newDevice(core.DeviceID{Type: core.DeviceGL}, f, r.Do, nil)
	d.relay = r
	return d, nil
}

func cardOf(run func(f func())) (Card, error) {
	if run == nil {
		return Card{}, core.Errorf(core.ErrInvalid, "gl", "CardOf", "run is nil")
	}
	var f contextInfo
	var err error
	c := Card{CUDA: -1}
	if unserved := relay.New("gl", run).First(func() {
		if f, err = readContextInfo(); err != nil {
			return
		}
		var number int32
		if number, c.NoCUDA = egl.CUDADevice(); c.NoCUDA == nil {
			c.CUDA = number
		}
	}); unserved != nil {
		return Card{}, unserved
	}
	if err != nil {
		return Card{}, err
	}
	c.UUID = f.deviceUUID
	return c, nil
}

func newContext(id core.DeviceID) (destroy func(), err error) {
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

// checkID fails with core.ErrDevice if id is not one of the devices.
func checkID(call string, id core.DeviceID, devices int) error {
	if id.Type != core.DeviceGL || id.Index < 0 || int(id.Index) >= devices {
		return core.Errorf(core.ErrDevice, "gl", call, "there is no device %v: libEGL lists %d, from gl:0 on", id, devices)
	}
	return nil
}
