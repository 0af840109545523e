//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/core"
)

// backend has no other state: the library is the process's, all else its devices'.
type backend struct{ API }

var _ core.Backend = backend{}

// Backend returns the backend. Its devices are all devices of all platforms, or for OneAPI those that have unified
// shared memory.
func (a API) Backend() core.Backend { return backend{a} }

func (b backend) Name() string { return string(b.API) }

func (b backend) Probe(ctx context.Context) core.Probe {
	all, err := discover(ctx, b.API)
	if err != nil {
		return core.Probe{Reason: err.Error()}
	}
	first := all[0]
	return core.Probe{
		Available: true,
		Version:   driver.Text(first.platform, driver.PlatformVersion),
		Features:  slices.Clone(first.properties.Features),
	}
}

func (b backend) Devices(ctx context.Context) ([]core.Properties, error) {
	all, err := discover(ctx, b.API)
	if err != nil {
		return nil, err
	}
	properties := make([]core.Properties, len(all))
	for i, l := range all {
		properties[i] = l.properties
	}
	return properties, nil
}

func (b backend) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	all, err := discover(ctx, b.API)
	if err != nil {
		return nil, err
	}
	if id.Type != b.deviceType() || id.Index < 0 || int(id.Index) >= len(all) {
		return nil, b.errorf(core.ErrDevice, "Open", "there is no device %v: this machine has %[2]s:0 to %[2]s:%[3]d", id, b.API, len(all)-1)
	}
	l := all[id.Index]
	c, err := l.newContext()
	if err != nil {
		return nil, err
	}
	return openDevice(l, c)
}

func discover(ctx context.Context, a API) ([]location, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return list(a)
}
