//go:build cgo && unix

package pjrt

/*
#include "abi.h"
*/
import "C"

import (
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// plugin is the PJRT_Api of a plugin.
type plugin struct{ api unsafe.Pointer }

// check returns the error that a PJRT_Error stands for, and destroys it.
func (p plugin) check(call string, failed unsafe.Pointer) error {
	if failed == nil {
		return nil
	}
	defer C.dlx_pjrt_destroy_error(p.api, failed)
	code := int64(C.dlx_pjrt_code(p.api, failed))
	err := core.ErrInvalid
	switch code {
	case resourceExhausted:
		err = core.ErrOutOfMemory
	case unimplemented:
		err = core.ErrNotSupported
	}
	var size C.size_t
	message := C.dlx_pjrt_message(p.api, failed, &size)
	text := string(unsafe.Slice((*byte)(unsafe.Pointer(message)), int(size)))
	return &core.Error{Backend: apiName, Call: call, Code: code, Detail: text, Err: err}
}

const (
	resourceExhausted = 8  // PJRT_Error_Code_RESOURCE_EXHAUSTED
	unimplemented     = 12 // PJRT_Error_Code_UNIMPLEMENTED
)

// complete returns an error if the plugin lacks a function that this package calls.
func (p plugin) complete() error {
	if !C.dlx_pjrt_ok(p.api) {
		return core.Errorf(core.ErrVersion, apiName, "GetPjrtApi", "the plugin is too old, or lacks functions that share memory")
	}
	return nil
}

// size returns the bytes of a buffer on its device.
func (p plugin) size(buffer unsafe.Pointer) (uint64, error) {
	var args C.dlx_pjrt_args
	err := p.check("PJRT_Buffer_OnDeviceSizeInBytes",
		C.dlx_pjrt_call(p.api, C.off_PJRT_Buffer_OnDeviceSizeInBytes, 8, buffer, &args))
	return *(*uint64)(unsafe.Pointer(&args.out)), err
}

func (p plugin) onHost(buffer unsafe.Pointer) (bool, error) {
	var args C.dlx_pjrt_args
	err := p.check("PJRT_Buffer_IsOnCpu", C.dlx_pjrt_call(p.api, C.off_PJRT_Buffer_IsOnCpu, 1, buffer, &args))
	return args.out[0] != 0, err
}

// hold keeps the memory of a buffer from being reused or moved, until drop.
func (p plugin) hold(buffer unsafe.Pointer) error {
	var args C.dlx_pjrt_args
	return p.check("PJRT_Buffer_IncreaseExternalReferenceCount",
		C.dlx_pjrt_call(p.api, C.off_PJRT_Buffer_IncreaseExternalReferenceCount, 0, buffer, &args))
}

func (p plugin) drop(buffer unsafe.Pointer) error {
	var args C.dlx_pjrt_args
	return p.check("PJRT_Buffer_DecreaseExternalReferenceCount",
		C.dlx_pjrt_call(p.api, C.off_PJRT_Buffer_DecreaseExternalReferenceCount, 0, buffer, &args))
}

// readyEvent returns an event that is done when the elements of a buffer are written. The caller destroys it.
func (p plugin) readyEvent(buffer unsafe.Pointer) (unsafe.Pointer, error) {
	var args C.dlx_pjrt_args
	err := p.check("PJRT_Buffer_ReadyEvent", C.dlx_pjrt_call(p.api, C.off_PJRT_Buffer_ReadyEvent, 8, buffer, &args))
	return *(*unsafe.Pointer)(unsafe.Pointer(&args.out)), err
}

func (p plugin) isReady(event unsafe.Pointer) (bool, error) {
	var args C.dlx_pjrt_args
	err := p.check("PJRT_Event_IsReady", C.dlx_pjrt_call(p.api, C.off_PJRT_Event_IsReady, 1, event, &args))
	return args.out[0] != 0, err
}

// await blocks until an event is done, and returns the error of the work.
func (p plugin) await(event unsafe.Pointer) error {
	var args C.dlx_pjrt_args
	return p.check("PJRT_Event_Await", C.dlx_pjrt_call(p.api, C.off_PJRT_Event_Await, 0, event, &args))
}

func (p plugin) destroyEvent(event unsafe.Pointer) error {
	var args C.dlx_pjrt_args
	return p.check("PJRT_Event_Destroy", C.dlx_pjrt_call(p.api, C.off_PJRT_Event_Destroy, 0, event, &args))
}

// strides returns the distances of the elements of a buffer, in elements of itemSize bytes.
func (p plugin) strides(buffer unsafe.Pointer, shape []int64, itemSize int64) ([]int64, error) {
	values := make([]int64, len(shape))
	var kind C.int32_t
	failed := C.dlx_pjrt_layout(p.api, buffer, C.size_t(len(shape)), (*C.int64_t)(unsafe.SliceData(values)), &kind)
	if err := p.check("PJRT_Buffer_GetMemoryLayout", failed); err != nil {
		return nil, err
	}
	switch kind {
	case C.dlx_pjrt_order:
		return orderStrides(values, shape)
	case C.dlx_pjrt_strides:
		return byteStrides(values, itemSize)
	case C.dlx_pjrt_tiles:
		return nil, core.Errorf(core.ErrLayout, apiName, "PJRT_Buffer_GetMemoryLayout", "the buffer is tiled, which strides cannot express")
	}
	return nil, core.Errorf(core.ErrLayout, apiName, "PJRT_Buffer_GetMemoryLayout", "the layout is malformed")
}
