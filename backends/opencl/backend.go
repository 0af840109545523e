//go:build opencl && linux && cgo

package opencl

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/backends/opencl/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// backend has no state: the library is the process's, all else its devices'.
type backend struct{}

var _ core.Backend = backend{}

func newBackend() core.Backend { return backend{} }

func (backend) Name() string { return name }

func (backend) Probe(ctx context.Context) core.Probe {
	all, err := discover(ctx)
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

func (backend) Devices(ctx context.Context) ([]core.Properties, error) {
	all, err := discover(ctx)
	if err != nil {
		return nil, err
	}
	properties := make([]core.Properties, len(all))
	for i, l := range all {
		properties[i] = l.properties
	}
	return properties, nil
}

func (backend) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	all, err := discover(ctx)
	if err != nil {
		return nil, err
	}
	if id.Type != core.DeviceOpenCL || id.Index < 0 || int(id.Index) >= len(all) {
		return nil, errorf(core.ErrDevice, "Open", "there is no device %v: this machine has opencl:0 to opencl:%d", id, len(all)-1)
	}
	l := all[id.Index]
	c, s := driver.CreateContext(l.platform, l.handle)
	if err := check(s, "clCreateContext", "for %s", l.properties.Name); err != nil {
		return nil, err
	}
	return openDevice(l, c)
}

func discover(ctx context.Context) ([]location, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return list()
}
