//go:build webgpu && linux && cgo

package webgpu

import (
	"context"
	"strings"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
)

// backend has no state: everything belongs to opened devices.
type backend struct{}

var _ core.Backend = backend{}

func newBackend() core.Backend { return backend{} }

func (backend) Name() string { return core.DeviceWebGPU.BackendName() }

// Probe lists the adapters.
func (b backend) Probe(ctx context.Context) core.Probe {
	all, err := b.Devices(ctx)
	if err != nil {
		return core.Probe{Reason: err.Error()}
	}
	return core.Probe{Available: true, Version: all[0].Driver, Features: all[0].Features}
}

// Devices lists the adapters.
func (backend) Devices(ctx context.Context) ([]core.Properties, error) {
	var list []core.Properties
	err := visit(ctx, func(l *wgpu.Library, adapters []*wgpu.Adapter) error {
		for i, a := range adapters {
			list = append(list, properties(l, a, int32(i)))
		}
		return nil
	})
	return list, err
}

// Open opens an adapter.
func (backend) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	var d core.Device
	err := visit(ctx, func(l *wgpu.Library, adapters []*wgpu.Adapter) error {
		if id.Type != core.DeviceWebGPU || id.Index < 0 || int(id.Index) >= len(adapters) {
			return core.Errorf(core.ErrDevice, "webgpu", "Open", "there is no device %v: this machine has webgpu:0 to webgpu:%d", id, len(adapters)-1)
		}
		a := adapters[id.Index]
		native, err := a.Open()
		if err == nil {
			d = newDevice(native, properties(l, a, id.Index), a.Limits, a.CPU)
		}
		return err
	})
	return d, err
}

func wrap(ctx context.Context, native uintptr, index int32) (core.Device, error) {
	if native == 0 {
		return nil, core.Errorf(core.ErrInvalid, "webgpu", "Wrap", "the WGPUDevice is 0")
	}
	var d core.Device
	err := visit(ctx, func(l *wgpu.Library, adapters []*wgpu.Adapter) error {
		if index < 0 || int(index) >= len(adapters) {
			return core.Errorf(core.ErrDevice, "webgpu", "Wrap", "there is no adapter %d: this machine has 0 to %d", index, len(adapters)-1)
		}
		own, limits, err := wgpu.Wrap(wgpu.Handle(native))
		if err == nil {
			d = newDevice(own, properties(l, adapters[index], index), limits, adapters[index].CPU)
		}
		return err
	})
	return d, err
}

// visit calls f with the adapters, of which there is at least one, and releases them.
func visit(ctx context.Context, f func(*wgpu.Library, []*wgpu.Adapter) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l, err := wgpu.Open()
	if err != nil {
		return err
	}
	adapters := l.Adapters()
	defer func() {
		for _, a := range adapters {
			a.Release()
		}
	}()
	if len(adapters) == 0 {
		return core.Errorf(core.ErrNotSupported, "webgpu", "wgpuInstanceEnumerateAdapters", "%s finds no adapter: is a driver of Vulkan installed?", l.Version)
	}
	return f(l, adapters)
}

// alignment is that of every allocation: each is the beginning of a buffer of its own.
const alignment = 256

func properties(l *wgpu.Library, a *wgpu.Adapter, index int32) core.Properties {
	p := core.Properties{
		ID:           core.DeviceID{Type: core.DeviceWebGPU, Index: index},
		Name:         a.Name,
		Driver:       strings.TrimSuffix(l.Version+", "+a.Driver, ", "), // SwiftShader gives no description
		Alignment:    alignment,
		Capabilities: core.CapAsync | core.CapStreamWait | core.CapImportPointer | core.CapSemaphores | core.CapBatchCopy | core.CapPool,
	}
	p.AddFeature("host_view", core.CapHostView, false, "WebGPU maps a buffer only while the device does not use it")
	p.AddFeature("map_host", core.CapMapHost, false, "WebGPU makes no buffer of memory of the host")
	p.AddFeature("export_memory", core.CapExportMemory, false, "WebGPU gives no handle of memory: allocate on another device")
	p.AddFeature("import_memory", core.CapImportMemory, false, "WebGPU opens no handle of memory")
	p.AddFeature("export_semaphore", core.CapExportSemaphores, false, "WebGPU has no semaphores: the order between APIs is kept by the host")
	p.AddFeature("import_semaphore", core.CapImportSemaphores, false, "WebGPU has no semaphores: the order between APIs is kept by the host")
	p.AddFeature("sub_byte", core.CapSubByte, false, "the smallest unit that a shader changes alone is a byte")
	p.AddFeature("convert", core.CapConvert, true, "")
	p.AddFeature("device_clock", core.CapDeviceClock, false, "the host waits for a callback after each piece of work, so that the host's clock says the same")
	return p
}

// limitsOf returns the limits of shaders. A device of the program may have less workgroup memory than tiles need.
func limitsOf(l wgpu.Limits, cpu bool) gpucopy.Limits {
	limits := gpucopy.WebGPULimits(l.StorageRange, l.StorageAlignment, l.Groups)
	limits.Tiles = !cpu && l.GroupMemory >= gpucopy.WGSLGroupMemory
	return limits
}
