//go:build vulkan && linux && cgo

package driver

// #include "shim.h"
// #cgo noescape dlx_counter
// #cgo nocallback dlx_counter
// #cgo noescape dlx_wait
// #cgo nocallback dlx_wait
// #cgo noescape dlx_signal
// #cgo nocallback dlx_signal
import "C"

import (
	"time"
	"unsafe"

	vk "github.com/vulkan-go/vulkan"
)

// NewTimeline makes a timeline semaphore with value 0, which can be exported as an opaque descriptor if that
// is requested. The caller destroys it.
func (d *Device) NewTimeline(export bool) (uint64, error) {
	return d.newSemaphore(C.VK_SEMAPHORE_TYPE_TIMELINE, export)
}

// NewBinary is NewTimeline for a binary semaphore. Submit takes it as a Point without a value, and DestroyTimeline,
// ExportTimeline and ImportTimeline as they take a timeline.
func (d *Device) NewBinary(export bool) (uint64, error) {
	return d.newSemaphore(C.VK_SEMAPHORE_TYPE_BINARY, export)
}

func (d *Device) newSemaphore(kind C.VkSemaphoreType, export bool) (uint64, error) {
	info := newInfos()
	defer freeInfos(info)
	info.timeline.sType = C.VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO
	info.timeline.semaphoreType = kind
	if export {
		info.export_semaphore.sType = C.VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO
		info.export_semaphore.handleTypes = C.VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT
		info.timeline.pNext = unsafe.Pointer(&info.export_semaphore)
	}
	info.semaphore.sType = C.VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO
	info.semaphore.pNext = unsafe.Pointer(&info.timeline)
	var s vk.Semaphore
	r := vk.CreateSemaphore(d.handle, vk.NewSemaphoreCreateInfoRef(unsafe.Pointer(&info.semaphore)), nil, &s)
	return number(s), failed(C.VkResult(r), "vkCreateSemaphore", "")
}

// DestroyTimeline destroys a semaphore. No work may use it.
func (d *Device) DestroyTimeline(s uint64) { vk.DestroySemaphore(d.handle, as[vk.Semaphore](s), nil) }

// Counter returns the current value of a timeline. Where a validation layer may be active, only one goroutine
// at a time queries it. Before 1.3.257 the layer records the query in its state of the timeline, under a lock
// that several threads can hold, and two queries at a time leak or corrupt that state
// (SEMAPHORE_STATE::Wait).
func (d *Device) Counter(s uint64) (uint64, error) {
	if i := d.Physical.instance; i.messenger != 0 || !i.owned {
		d.counting.Lock()
		defer d.counting.Unlock()
	}
	var v C.uint64_t
	err := failed(C.dlx_counter(d.shim, C.uint64_t(s), &v), "vkGetSemaphoreCounterValue", "")
	return uint64(v), err
}

// Wait blocks until a timeline has reached value, and reports whether it did within the time.
func (d *Device) Wait(s, value uint64, timeout time.Duration) (bool, error) {
	r := C.dlx_wait(d.shim, C.uint64_t(s), C.uint64_t(value), C.uint64_t(timeout))
	if r == C.VK_TIMEOUT {
		return false, nil
	}
	return r == C.VK_SUCCESS, failed(r, "vkWaitSemaphores", "")
}

// Signal sets a timeline to value. value must be larger than the current one, and smaller than the values
// that submitted work will set.
func (d *Device) Signal(s, value uint64) error {
	return failed(C.dlx_signal(d.shim, C.uint64_t(s), C.uint64_t(value)), "vkSignalSemaphore", "value %d", value)
}

// ExportTimeline returns a new descriptor of an exportable timeline, which the caller closes.
func (d *Device) ExportTimeline(s uint64) (int, error) {
	var fd C.int
	err := failed(C.dlx_semaphore_fd(d.shim, C.uint64_t(s), &fd), "vkGetSemaphoreFdKHR", "")
	return int(fd), err
}

// ImportTimeline imports the payload of a descriptor into the semaphore s. On success the driver owns the
// descriptor.
func (d *Device) ImportTimeline(s uint64, fd int) error {
	return failed(C.dlx_import_semaphore(d.shim, C.uint64_t(s), C.int(fd)), "vkImportSemaphoreFdKHR", "FD %d", fd)
}
