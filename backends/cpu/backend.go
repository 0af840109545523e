package cpu

import (
	"context"
	"runtime"

	"github.com/dlx-go/dlx/core"
)

// backend has no state: everything belongs to its opened devices.
type backend struct{}

var _ core.Backend = backend{}

// New returns the backend "cpu". It has one device, core.CPU, which may be opened several times. Each opened
// device has its own pool and streams.
func New() core.Backend { return backend{} }

func (backend) Name() string { return core.DeviceCPU.BackendName() }

func (backend) Probe(context.Context) core.Probe {
	return core.Probe{Available: true, Version: platform, Features: properties().Features}
}

func (backend) Devices(ctx context.Context) ([]core.Properties, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return []core.Properties{properties()}, nil
}

func (backend) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if id != core.CPU {
		return nil, core.Errorf(core.ErrDevice, "cpu", "Open", "there is no device %v: the only one is %v", id, core.CPU)
	}
	return openDevice(), nil
}

// platform is reported as the driver, which the host does not have.
const platform = runtime.GOOS + "/" + runtime.GOARCH

func properties() core.Properties {
	p := core.Properties{
		ID:           core.CPU,
		Name:         processorName(),
		Driver:       platform,
		TotalMemory:  totalMemory(),
		FreeMemory:   freeMemory(),
		ComputeUnits: runtime.NumCPU(),
		Alignment:    alignment,
		Capabilities: core.CapAsync | core.CapHostMemory | core.CapStreamWait |
			core.CapImportPointer | core.CapSemaphores | core.CapPool | core.CapSubByte | core.CapBatchCopy,
	}
	if p.Name == "" {
		p.Name = runtime.GOARCH + " processor"
	}
	err := probeMemFD()
	p.AddFeature(core.HandleMemFD.String(), core.CapExportMemory|core.CapImportMemory, err == nil, "%v", err)
	return p
}
