//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"fmt"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// backend has no state: the library is the process's, all else its devices'.
type backend struct{}

var _ core.Backend = backend{}

func newBackend() core.Backend { return backend{} }

func (backend) Name() string { return name }

func (backend) Probe(ctx context.Context) core.Probe {
	all, err := list(ctx)
	if err != nil {
		return core.Probe{Reason: err.Error()}
	}
	return core.Probe{Available: true, Version: versionText(driver.Version()), Features: all[0].Features}
}

func (backend) Devices(ctx context.Context) ([]core.Properties, error) { return list(ctx) }

func (backend) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	n, err := count(ctx)
	if err != nil {
		return nil, err
	}
	if id.Type != core.DeviceCUDA || id.Index < 0 || int(id.Index) >= n {
		return nil, errorf(core.ErrDevice, "Open", "there is no device %v: this machine has cuda:0 to cuda:%d", id, n-1)
	}
	return openDevice(int(id.Index))
}

// count is how many devices there are: one at least.
func count(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s, err := driver.Load()
	if err != nil {
		return 0, err
	}
	if s == driver.NoDevice {
		return 0, errorf(core.ErrNotSupported, "cuInit", "%v: a driver is installed, but it finds no card; CUDA_VISIBLE_DEVICES may hide them", s)
	}
	if err := check(s, "cuInit", "the driver cannot be used"); err != nil {
		return 0, err
	}
	n, s := driver.Devices()
	if err := check(s, "cuDeviceGetCount", "the devices of the driver"); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, errorf(core.ErrNotSupported, "cuDeviceGetCount", "the driver has no device: CUDA_VISIBLE_DEVICES may hide them")
	}
	return n, nil
}

// list describes every device that the driver can describe, one at least.
func list(ctx context.Context) ([]core.Properties, error) {
	n, err := count(ctx)
	if err != nil {
		return nil, err
	}
	var all []core.Properties
	var failed error
	for i := range n {
		p, err := describe(i)
		if err == nil {
			all = append(all, p)
		} else if failed == nil {
			failed = err
		}
	}
	if len(all) == 0 {
		return nil, failed
	}
	return all, nil
}

// versionText is the text of a version of CUDA: 12040 is "12.4".
func versionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }
