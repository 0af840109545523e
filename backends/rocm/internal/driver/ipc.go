//go:build rocm && linux && cgo

package driver

/*
#include "shim.h"

static hipError_t dlx_ipc_export(int device, uintptr_t p, void *handle) {
	DLX_RELAXED(device, dlx_hip.hipIpcGetMemHandle(handle, (void *)p));
}

static hipError_t dlx_ipc_open(int device, const void *handle, void **p) {
	unsigned flags = dlx_hip_version < DLX_HIP_6_0 ? DLX_LAZY_PEERS_5 : DLX_LAZY_PEERS_6;
	DLX_RELAXED(device, dlx_hip.hipIpcOpenMemHandle(p, *(const hipIpcMemHandle_t *)handle, flags));
}

static hipError_t dlx_ipc_close(int device, uintptr_t p) {
	DLX_RELAXED(device, dlx_hip.hipIpcCloseMemHandle((void *)p));
}

static hipError_t dlx_ipc_event_export(int device, uintptr_t event, void *handle) {
	DLX_RELAXED(device, dlx_hip.hipIpcGetEventHandle(handle, (hipEvent_t)event));
}

static hipError_t dlx_ipc_event_open(int device, const void *handle, hipEvent_t *event) {
	DLX_RELAXED(device, dlx_hip.hipIpcOpenEventHandle(event, *(const hipIpcEventHandle_t *)handle));
}
*/
import "C"

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

// The handles have the size of cudalike's.
var _ cudalike.IPCHandle = [C.HIP_IPC_HANDLE_SIZE]byte{}

func (c context) ExportIPC(address uintptr) (h cudalike.IPCHandle, s cudalike.Status) {
	s = answer("hipIpcGetMemHandle", C.dlx_ipc_export(c.device(), C.uintptr_t(address), unsafe.Pointer(&h)))
	return h, s
}

func (c context) OpenIPC(h cudalike.IPCHandle) (uintptr, cudalike.Status) {
	var p unsafe.Pointer
	s := answer("hipIpcOpenMemHandle", C.dlx_ipc_open(c.device(), unsafe.Pointer(&h), &p))
	return uintptr(p), s
}

func (c context) CloseIPC(address uintptr) cudalike.Status {
	return answer("hipIpcCloseMemHandle", C.dlx_ipc_close(c.device(), C.uintptr_t(address)))
}

func (c context) NewIPCEvent() (uintptr, cudalike.Status) {
	return c.newEvent(C.hipEventDisableTiming | C.hipEventInterprocess)
}

func (c context) ExportIPCEvent(event uintptr) (h cudalike.IPCHandle, s cudalike.Status) {
	s = answer("hipIpcGetEventHandle", C.dlx_ipc_event_export(c.device(), C.uintptr_t(event), unsafe.Pointer(&h)))
	return h, s
}

func (c context) OpenIPCEvent(h cudalike.IPCHandle) (uintptr, cudalike.Status) {
	var e C.hipEvent_t
	s := answer("hipIpcOpenEventHandle", C.dlx_ipc_event_open(c.device(), unsafe.Pointer(&h), &e))
	return uintptr(unsafe.Pointer(e)), s
}
