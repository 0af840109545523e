// Package engine is the backend "metal" over the interface of package driver. It calls no system, so that all of it is
// tested on every platform, over package fake.
package engine

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// name is the backend's.
const name = "metal"

// Backend is the backend "metal".
type Backend struct {
	open func() (driver.Driver, error)
}

var _ core.Backend = (*Backend)(nil)

// New returns a backend over the driver that open returns. open is called once, on the first use; its error is why
// there is no Metal.
func New(open func() (driver.Driver, error)) *Backend {
	return &Backend{open: sync.OnceValues(open)}
}

// Name returns "metal".
func (*Backend) Name() string { return name }

// Probe describes the first device.
func (b *Backend) Probe(ctx context.Context) core.Probe {
	var p core.Probe
	err := b.visit(ctx, func(v driver.Driver, devices []driver.ID) error {
		info := v.Describe(devices[0])
		p = core.Probe{Available: true, Version: info.System, Features: describe(v, devices[0], info, 0).Features}
		return nil
	})
	if err != nil {
		return core.Probe{Reason: err.Error()}
	}
	return p
}

// Devices lists the devices of MTLCopyAllDevices in its order.
func (b *Backend) Devices(ctx context.Context) ([]core.Properties, error) {
	var all []core.Properties
	err := b.visit(ctx, func(v driver.Driver, devices []driver.ID) error {
		for i, id := range devices {
			all = append(all, describe(v, id, v.Describe(id), int32(i)))
		}
		return nil
	})
	return all, err
}

// Open opens a device. It can be opened several times.
func (b *Backend) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	var d core.Device
	err := b.visit(ctx, func(v driver.Driver, devices []driver.ID) error {
		if id.Type != core.DeviceMetal || id.Index < 0 || int(id.Index) >= len(devices) {
			return errorf(core.ErrDevice, "Open", "there is no device %v: this machine has metal:0 to metal:%d", id, len(devices)-1)
		}
		d = openDevice(v, devices[id.Index], id.Index)
		return nil
	})
	return d, err
}

// visit calls f with the devices, of which there is at least one, and releases them.
func (b *Backend) visit(ctx context.Context, f func(driver.Driver, []driver.ID) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	v, err := b.open()
	if err != nil {
		return err
	}
	devices := v.CopyDevices()
	defer func() {
		for _, id := range devices {
			v.Release(id)
		}
	}()
	if len(devices) == 0 {
		return errorf(core.ErrNotSupported, "MTLCopyAllDevices", "this machine has no GPU for Metal")
	}
	return f(v, devices)
}

// describe returns the properties of a device.
func describe(v driver.Driver, id driver.ID, info driver.DeviceInfo, index int32) core.Properties {
	out := core.Properties{
		ID:          core.DeviceID{Type: core.DeviceMetal, Index: index},
		Name:        info.Name,
		Driver:      info.System,
		TotalMemory: bytesOf(info.WorkingSet),
		Alignment:   alignment,
		Capabilities: core.CapAsync | core.CapStreamWait | core.CapImportPointer | core.CapMapHost | core.CapHostView |
			core.CapSemaphores | core.CapPool | core.CapImportStream | core.CapPeer | core.CapBatchCopy | core.CapConvert,
	}
	out.FreeMemory = max(out.TotalMemory-bytesOf(v.AllocatedSize(id)), 0)
	out.AddFeature("unified_memory", core.CapSubByte, info.Unified, "the host does not reach the GPU's own memory (hasUnifiedMemory)")
	out.AddFeature("export_memory", core.CapExportMemory, false, "an MTLBuffer has no handle for other processes: memory that they share is an IOSurface, or host memory (core.HostMapper)")
	out.AddFeature("import_memory", core.CapImportMemory, false, "Metal opens no handle of memory: map host memory (core.HostMapper) or import an id<MTLBuffer>")
	out.AddFeature("device_clock", core.CapDeviceClock, false, "dlx does not read the times of command buffers (GPUStartTime)")
	const xpc = "an MTLSharedEventHandle travels only in an XPC message, and core.Handle holds a number or bytes"
	out.AddFeature("export_semaphore", core.CapExportSemaphores, false, xpc)
	out.AddFeature("import_semaphore", core.CapImportSemaphores, false, xpc)
	return out
}

// bytesOf converts a number of bytes of Metal, some of which are NSUIntegerMax for "no limit".
func bytesOf(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func errorf(sentinel error, call, format string, args ...any) *core.Error {
	return core.Errorf(sentinel, name, call, format, args...)
}

// commandError makes the error of a command buffer that the GPU did not carry out. e may be nil, for nil. Only the
// codes after which no command buffer runs any more mean that the device is lost (Apple, "MTLCommandBufferError":
// accessRevoked, deviceRemoved).
func commandError(e *driver.Error) error {
	if e == nil {
		return nil
	}
	sentinel, advice := core.ErrInvalid, "the work did not run to its end"
	if e.Domain == driver.CommandBufferDomain {
		switch e.Code {
		case driver.ErrOutOfMemory:
			sentinel, advice = core.ErrOutOfMemory, "close tensors, or work on smaller ones"
		case driver.ErrDeviceRemoved:
			sentinel, advice = core.ErrDeviceLost, "the GPU was removed"
		case driver.ErrAccessRevoked:
			sentinel, advice = core.ErrDeviceLost, "the system has barred this process from the GPU, after an earlier error or a timeout"
		case driver.ErrTimeout:
			advice = "the system ended the work because it took too long"
		case driver.ErrPageFault, driver.ErrInvalidResource:
			advice = "the work used memory that is not there: was an imported MTLBuffer released too early?"
		case driver.ErrNotPermitted:
			sentinel, advice = core.ErrNotSupported, "the system lets this process not use the GPU now"
		}
	}
	return &core.Error{Backend: name, Call: "MTLCommandBuffer", Code: int64(e.Code), Err: sentinel,
		Detail: fmt.Sprintf("%s (%s): %s", e.Text, e.Domain, advice)}
}

// noObject is the error of a method of Metal that returned nil, which says nothing of the reason.
func noObject(call string) error {
	return errorf(core.ErrOutOfMemory, call, "Metal returned nil, which means that it has no memory for the object")
}
