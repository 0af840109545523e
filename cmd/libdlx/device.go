//go:build cgo

package main

// #include "dlx.h"
import "C"

import (
	"context"
	"unsafe"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/backends/oneapi"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/inventory"
)

var (
	registries = newHandles[*core.Registry]("registry")
	devices    = newHandles[core.Device]("device")
)

//export dlxgo_registry_open
func dlxgo_registry_open(registry **C.dlx_registry, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("registry", unsafe.Pointer(registry)); err != nil {
			return err
		}
		registries.add(unsafe.Pointer(registry), all.New())
		return nil
	})
}

//export dlxgo_registry_close
func dlxgo_registry_close(registry *C.dlx_registry, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		_, err := registries.take(unsafe.Pointer(registry))
		return err
	})
}

//export dlxgo_registry_devices
func dlxgo_registry_devices(registry *C.dlx_registry, timeout C.int64_t, list *C.dlx_device_info, capacity C.size_t, count *C.size_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("count", unsafe.Pointer(count)); err != nil {
			return err
		}
		if list == nil && capacity != 0 {
			return invalid("devices is NULL, and capacity is %d", capacity)
		}
		r, err := registries.get(unsafe.Pointer(registry))
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			found := devicesOf(ctx, r)
			if err := ctx.Err(); err != nil {
				return err
			}
			out := unsafe.Slice(list, min(uint64(capacity), uint64(len(found))))
			for i := range out {
				out[i] = deviceInfo(found[i])
			}
			*count = C.size_t(len(found))
			return nil
		})
	})
}

// devicesOf returns the devices of all backends that can list theirs.
func devicesOf(ctx context.Context, r *core.Registry) []core.Properties {
	var found []core.Properties
	for _, b := range r.Backends() {
		if list, err := b.Devices(ctx); err == nil {
			found = append(found, list...)
		}
	}
	return found
}

func deviceInfo(p core.Properties) (info C.dlx_device_info) {
	info.id = deviceID(p.ID)
	put(info.id_text[:], p.ID.String())
	put(info.name[:], p.Name)
	put(info.driver[:], p.Driver)
	info.total_memory = C.int64_t(p.TotalMemory)
	info.free_memory = C.int64_t(p.FreeMemory)
	info.alignment = C.int64_t(p.Alignment)
	info.capabilities = C.uint64_t(p.Capabilities)
	return info
}

func deviceID(id core.DeviceID) C.dlx_device_id {
	return C.dlx_device_id{_type: C.int32_t(id.Type), index: C.int32_t(id.Index)}
}

//export dlxgo_registry_json
func dlxgo_registry_json(registry *C.dlx_registry, timeout C.int64_t, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		r, err := registries.get(unsafe.Pointer(registry))
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			list := inventory.List(ctx, r)
			if err := ctx.Err(); err != nil {
				return err
			}
			return setJSON(out, map[string][]inventory.Backend{"backends": list})
		})
	})
}

//export dlxgo_device_open
func dlxgo_device_open(registry *C.dlx_registry, name *C.char, timeout C.int64_t, device **C.dlx_device, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("device", unsafe.Pointer(device)); err != nil {
			return err
		}
		if err := required("name", unsafe.Pointer(name)); err != nil {
			return err
		}
		r, err := registries.get(unsafe.Pointer(registry))
		if err != nil {
			return err
		}
		id, err := core.ParseDevice(C.GoString(name))
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			d, err := r.Open(ctx, id)
			if err == nil {
				devices.add(unsafe.Pointer(device), d)
			}
			return err
		})
	})
}

//export dlxgo_device_close
func dlxgo_device_close(device *C.dlx_device, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		d, err := devices.get(unsafe.Pointer(device))
		if err != nil {
			return err
		}
		if err := d.Close(); err != nil {
			return err
		}
		_, err = devices.take(unsafe.Pointer(device))
		return err
	})
}

//export dlxgo_device_get_info
func dlxgo_device_get_info(device *C.dlx_device, info *C.dlx_device_info, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("info", unsafe.Pointer(info)); err != nil {
			return err
		}
		d, err := devices.get(unsafe.Pointer(device))
		if err == nil {
			*info = deviceInfo(d.Properties())
		}
		return err
	})
}

//export dlxgo_device_json
func dlxgo_device_json(device *C.dlx_device, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		d, err := devices.get(unsafe.Pointer(device))
		if err != nil {
			return err
		}
		return setJSON(out, inventory.Describe(d.Properties()))
	})
}

//export dlxgo_oneapi_adopt
func dlxgo_oneapi_adopt(context, device C.uintptr_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error { return oneapi.Adopt(uintptr(context), uintptr(device)) })
}
