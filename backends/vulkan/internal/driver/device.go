//go:build vulkan && linux && cgo

package driver

// #include "shim.h"
import "C"

import (
	"slices"
	"sync"
	"unsafe"

	vk "github.com/vulkan-go/vulkan"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/core"
)

// Device is a VkDevice with queues of one family. Its methods are safe for concurrent use as far as Vulkan's functions
// are: only one goroutine at a time may use a command pool.
type Device struct {
	Physical *Physical
	Queue    uint64
	Family   int

	handle     vk.Device
	shim       *C.dlx_device
	owned      bool
	extensions []string
	lock       sync.Locker // the lock of another library's queue; nil for the shim's
	others     []otherQueue
	counting   sync.Mutex // see Counter
}

// otherQueue is a queue other than the first one.
type otherQueue struct {
	mu     sync.Mutex
	handle uint64
}

// NewDevice makes a device with all extensions of this package that it supports. The caller closes it. It
// fails with core.ErrNotSupported if p lacks what is needed.
func NewDevice(p *Physical) (*Device, error) {
	defer dl.KeepHandlers()()
	if err := p.Usable(); err != nil {
		return nil, err
	}
	if room, ok := rooms[p.DriverID]; ok {
		if err := room.Check(backend, "vkCreateDevice"); err != nil {
			return nil, err
		}
	}
	d := &Device{Physical: p, Family: p.Family, owned: true, others: make([]otherQueue, min(p.Queues, C.DLX_QUEUES)-1)}
	for _, e := range []string{ExternalMemoryFD, ExternalMemoryDMA, ExternalMemoryHost, ExternalSemaphoreFD, QueueFamilyForeign} {
		if p.Has(e) {
			d.extensions = append(d.extensions, e)
		}
	}
	if p.API < Version12 {
		for _, e := range []string{TimelineSemaphore, storage8Bit} {
			if p.Has(e) {
				d.extensions = append(d.extensions, e)
			}
		}
	}
	if err := d.create(); err != nil {
		return nil, err
	}
	var queue vk.Queue
	vk.GetDeviceQueue(d.handle, uint32(d.Family), 0, &queue)
	d.Queue = number(queue)
	for i := range d.others {
		vk.GetDeviceQueue(d.handle, uint32(d.Family), uint32(i+1), &queue)
		d.others[i].handle = number(queue)
	}
	if err := d.fill(); err != nil {
		vk.DestroyDevice(d.handle, nil)
		return nil, err
	}
	return d, nil
}

// rooms are what vkCreateDevice of drivers for the CPU needs. lavapipe of Mesa 22.3 ends the process if it gets no
// memory for a small struct, but not if it gets no thread. It takes some 4 MB; threads that the Go runtime starts
// meanwhile take the rest. SwiftShader ends the process if it gets no thread: it starts one for each processor and one for each
// queue.
var rooms = map[VendorDriver]dl.Room{
	Llvmpipe:    {Threads: 4, Fewer: true, Bytes: 16 << 20},
	SwiftShader: {Threads: 2, Bytes: 16 << 20},
}

// Usable returns why the device cannot be used, or nil if it can.
func (p *Physical) Usable() error {
	switch {
	case p.API < Version11:
		return core.Errorf(core.ErrVersion, backend, "vkGetPhysicalDeviceProperties2", "%s has Vulkan %v, and 1.1 is the oldest supported version: install a newer driver", p.Name, p.API)
	case !p.Timeline:
		return core.Errorf(core.ErrNotSupported, backend, "vkGetPhysicalDeviceFeatures2", "%s has no feature timelineSemaphore: install a newer driver", p.Name)
	case p.Family < 0:
		return core.Errorf(core.ErrNotSupported, backend, "vkGetPhysicalDeviceQueueFamilyProperties", "%s has no queue for compute", p.Name)
	case !slices.ContainsFunc(p.Memory, func(t MemoryType) bool { return t.Visible && t.Coherent && !t.Protected }):
		return core.Errorf(core.ErrNotSupported, backend, "vkGetPhysicalDeviceMemoryProperties", "%s has no memory that is visible to the host and coherent, which the specification promises", p.Name)
	}
	return nil
}

// create calls vkCreateDevice.
func (d *Device) create() error {
	info := newInfos()
	defer freeInfos(info)
	var free func()
	info.device.sType = C.VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO
	info.device.ppEnabledExtensionNames, info.device.enabledExtensionCount, free = cStrings(d.extensions)
	defer free()
	info.queue.sType = C.VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO
	info.queue.queueFamilyIndex = C.uint32_t(d.Family)
	info.queue.queueCount = C.uint32_t(len(d.others) + 1)
	for i := range info.priorities {
		info.priorities[i] = 1
	}
	info.queue.pQueuePriorities = &info.priorities[0]
	info.device.queueCreateInfoCount = 1
	info.device.pQueueCreateInfos = &info.queue

	info.timeline_feature.sType = C.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES
	info.timeline_feature.timelineSemaphore = C.VK_TRUE
	info.features.sType = C.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2
	info.features.pNext = unsafe.Pointer(&info.timeline_feature)
	next := &info.timeline_feature.pNext
	if d.Physical.Storage16 {
		info.storage16.sType = C.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES
		info.storage16.storageBuffer16BitAccess = C.VK_TRUE
		*next, next = unsafe.Pointer(&info.storage16), &info.storage16.pNext
	}
	if d.Physical.Storage8 {
		info.storage8.sType = C.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES
		info.storage8.storageBuffer8BitAccess = C.VK_TRUE
		*next = unsafe.Pointer(&info.storage8)
	}
	info.device.pNext = unsafe.Pointer(&info.features)
	var handle vk.Device // not d's own, which lies among Go pointers
	r := vk.CreateDevice(as[vk.PhysicalDevice](d.Physical.Handle), vk.NewDeviceCreateInfoRef(unsafe.Pointer(&info.device)), nil, &handle)
	d.handle = handle
	return failed(C.VkResult(r), "vkCreateDevice", "%s", d.Physical.Name)
}

// fill fills the table of functions.
func (d *Device) fill() error {
	get := function[C.PFN_vkGetDeviceProcAddr](d.Physical.instance, "vkGetDeviceProcAddr")
	var missing *C.char
	d.shim = C.dlx_device_new(get, C.uint64_t(d.Handle()), C.uint64_t(d.Queue), C.uint32_t(d.Family), &missing)
	if d.shim == nil {
		return core.Errorf(core.ErrNotSupported, backend, "vkGetDeviceProcAddr", "%s has no function %s", d.Physical.Name, C.GoString(missing))
	}
	return nil
}

// WrapDevice takes a device of another library, the extensions that were enabled for it, and a queue. The
// other library destroys the device. The caller does not use p for another device. lock is held during each submission; nil says that only dlx submits to
// the queue.
func WrapDevice(p *Physical, device, queue uint64, family int, extensions []string, lock sync.Locker) (*Device, error) {
	p.useFamily(family)
	d := &Device{Physical: p, Queue: queue, Family: family, handle: as[vk.Device](device), extensions: slices.Clone(extensions), lock: lock}
	return d, d.fill()
}

// Close destroys the device if NewDevice made it. Everything made from it must be destroyed, and its work
// done.
func (d *Device) Close() {
	if d.owned {
		defer dl.KeepHandlers()()
		vk.DestroyDevice(d.handle, nil)
	}
	C.dlx_device_free(d.shim)
}

// Has reports whether an extension is enabled.
func (d *Device) Has(extension string) bool { return slices.Contains(d.extensions, extension) }

// Handle is the VkDevice.
func (d *Device) Handle() uint64 { return number(d.handle) }

// Instance is the VkInstance.
func (d *Device) Instance() uint64 { return d.Physical.instance.Handle() }

// QueueLock returns what other libraries need to submit to the queue: C functions that lock and unlock it,
// and their argument. They are 0 if the lock belongs to the library that made the device.
func (d *Device) QueueLock() (lock, unlock, context uintptr) {
	if d.lock != nil {
		return 0, 0, 0
	}
	return uintptr(C.dlx_queue_lock), uintptr(C.dlx_queue_unlock), uintptr(unsafe.Pointer(d.shim))
}

// Others returns how many queues there are beside the first one.
func (d *Device) Others() int { return len(d.others) }

// WaitIdle blocks until the device has no unfinished work.
func (d *Device) WaitIdle() error {
	if d.lock != nil {
		d.lock.Lock()
		defer d.lock.Unlock()
	} else {
		C.dlx_queue_lock(unsafe.Pointer(d.shim))
		defer C.dlx_queue_unlock(unsafe.Pointer(d.shim))
	}
	for i := range d.others {
		d.others[i].mu.Lock()
		defer d.others[i].mu.Unlock()
	}
	return failed(C.VkResult(vk.DeviceWaitIdle(d.handle)), "vkDeviceWaitIdle", "")
}
